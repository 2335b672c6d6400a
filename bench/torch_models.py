"""The nets that benchmarks and tests of comet_torch train: ResNet-50, ViT-B/16 and GPT-2 small, which need torch alone.

`Workload` is a net with batches of made-up data, its loss and its optimiser. Each step has a new batch: the gradients of one batch seen
again and again would have no noise, from which bounds follow. ResNet-50 has the modules and names of torchvision's.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "pytorch"))
from transformer import Gpt, Vit  # noqa: E402


class Bottleneck(nn.Module):
    def __init__(self, n_in, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or n_in != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(n_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        n_in = 64
        for stage, depth in enumerate((3, 4, 6, 3)):
            blocks = []
            for i in range(depth):
                blocks.append(Bottleneck(n_in, 64 << stage, 2 if stage > 0 and i == 0 else 1))
                n_in = 256 << stage
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(n_in, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class Workload:
    """A net, `draw`, which makes a batch of (inputs, targets), and an optimiser. `blocks` are the modules that checkpointing wraps."""

    def __init__(self, model, draw, optimizer, blocks):
        self.model, self.draw, self.optimizer, self.blocks = model, draw, optimizer, blocks
        self.inputs = self.targets = None

    def next_batch(self):
        self.inputs, self.targets = self.draw()

    def loss(self):
        logits = self.model(self.inputs)
        return F.cross_entropy(logits.flatten(0, -2), self.targets.flatten())

    def step(self, autocast=False):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def fixed_bytes(self):
        """Bytes of weights, gradients, buffers and the optimiser's state, each storage once."""
        tensors = list(self.model.parameters()) + list(self.model.buffers())
        tensors += [p.grad for p in self.model.parameters() if p.grad is not None]
        tensors += [t for state in self.optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
        return sum({t.data_ptr(): t.numel() * t.element_size() for t in tensors}.values())

    def checkpoint_blocks(self):
        """torch.utils.checkpoint around each block, as users do."""
        from torch.utils.checkpoint import checkpoint

        for block in self.blocks:
            block.forward = lambda x, forward=block.forward: checkpoint(forward, x, use_reentrant=False)


def images(batch, side, classes):
    """Random images with the spectrum of photographs, whose amplitudes fall as 1 / frequency, of deviation 1. Their colours have most of
    their structure in common."""
    y, x = torch.fft.fftfreq(side)[:, None], torch.fft.rfftfreq(side)[None, :]
    amplitudes = 1 / (y.square() + x.square()).sqrt().clamp(min=1 / side)
    noise = torch.randn(batch, 4, side, side)
    noise = noise[:, :1] + 0.3 * noise[:, 1:]
    pictures = torch.fft.irfft2(torch.fft.rfft2(noise) * amplitudes, s=(side, side))
    pictures -= pictures.mean((1, 2, 3), keepdim=True)
    return pictures / pictures.std((1, 2, 3), keepdim=True), torch.randint(classes, (batch,))


def text(batch, length):
    """Tokens, and the one that follows each."""
    tokens = torch.randint(50257, (batch, length + 1))
    return tokens[:, :-1], tokens[:, 1:]


def resnet50(batch=32, image=224):
    model = ResNet50()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9, weight_decay=5e-4)
    return Workload(model, lambda: images(batch, image, 1000), optimizer, [m for m in model.modules() if isinstance(m, Bottleneck)])


def vit_b16(batch=20, image=224):
    model = Vit(image)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    return Workload(model, lambda: images(batch, image, 1000), optimizer, list(model.blocks))


def gpt2_small(batch=5, length=512):
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    return Workload(model, lambda: text(batch, length), optimizer, list(model.blocks))


WORKLOADS = {"resnet50": resnet50, "vit_b16": vit_b16, "gpt2_small": gpt2_small}
