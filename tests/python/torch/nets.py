"""Small networks with the structure of known ones, for tests on any torch."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet50(nn.Sequential):
    """All 53 convolutions, with fewer channels."""

    def __init__(self, width=8, classes=10):
        blocks, inputs = [], width
        for stage, n in enumerate((3, 4, 6, 3)):
            for i in range(n):
                blocks.append(Bottleneck(inputs, width << stage, 2 if i == 0 and stage > 0 else 1))
                inputs = 4 * (width << stage)
        super().__init__(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
                         *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.pool, self.fc1, self.fc2 = nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 2, 1), nn.Conv2d(channels // 2, channels, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(self.pool(x)))))


class InvertedResidual(nn.Module):
    def __init__(self, channels, wide):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(wide, wide, 5, 1, 2, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        self.excite = SqueezeExcite(wide)
        self.project = nn.Sequential(nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return x + self.project(self.excite(self.depthwise(self.expand(x))))


class MobileNetV3(nn.Sequential):
    def __init__(self, classes=10):
        super().__init__(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), InvertedResidual(16, 32),
                         InvertedResidual(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 32), nn.Hardswish(),
                         nn.Dropout(0.2), nn.Linear(32, classes))


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ConvNeXt(nn.Sequential):
    def __init__(self, width=16, classes=10):
        super().__init__(nn.Conv2d(3, width, 4, 4), ConvNeXtBlock(width), ConvNeXtBlock(width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.LayerNorm(width), nn.Linear(width, classes))


class Attention(nn.Module):
    """Fused where torch has it; else, and with fused=False, of products and a softmax."""

    def __init__(self, width, heads, causal=False, dropout=0.0, fused=True):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.fused = fused and hasattr(F, "scaled_dot_product_attention")
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.full((512, 512), -math.inf).triu(1))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            if self.causal:
                scores = scores + self.mask[:length, :length]
            y = scores.softmax(-1) @ v
        return F.dropout(self.proj(y.transpose(1, 2).reshape(batch, length, width)), self.dropout, self.training)


class Block(nn.Module):
    """Of a transformer, norms first."""

    def __init__(self, width=64, heads=4, causal=False, dropout=0.0, fused=True):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, causal, dropout, fused)
        self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class ViT(nn.Module):
    def __init__(self, width=64, depth=2, classes=10, dropout=0.1, fused=True):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.cls, self.position = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) * 0.1)
        self.blocks = nn.Sequential(*[Block(width, dropout=dropout, fused=fused) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class GPT(nn.Module):
    def __init__(self, width=64, depth=2, words=64, fused=True):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(128, width)
        self.blocks = nn.Sequential(*[Block(width, causal=True, fused=fused) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class LoRALinear(nn.Module):
    """A frozen linear layer and a product of two thin matrices that is added to it, or merged into its weight."""

    def __init__(self, linear, rank=4, merged=False):
        super().__init__()
        self.linear, self.merged = linear.requires_grad_(False), merged
        self.a = nn.Parameter(torch.randn(rank, linear.in_features) * 0.1)
        self.b = nn.Parameter(torch.randn(linear.out_features, rank) * 0.1)

    def forward(self, x):
        if self.merged:
            return F.linear(x, self.linear.weight + 2.0 * (self.b @ self.a), self.linear.bias)
        return self.linear(x) + 2.0 * F.linear(F.linear(x, self.a), self.b)


def lora(merged=False):
    net = GPT().requires_grad_(False)
    for block in net.blocks:
        block.attn.qkv, block.up = LoRALinear(block.attn.qkv, merged=merged), LoRALinear(block.up, merged=merged)
    return net


def images(batch=4, side=32, seed=0):
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(seed))


def tokens(batch=8, length=32, words=64, seed=0):
    return torch.randint(0, words, (batch, length), generator=torch.Generator().manual_seed(seed))


def loss_of(net, x):
    """A loss of about the size that a cross-entropy has, which saves what a real one does."""
    y = net(x)
    return F.cross_entropy(y.reshape(-1, y.shape[-1]), torch.arange(y.numel() // y.shape[-1]) % y.shape[-1])


def gradients(net, x, seed=0):
    """Loss and gradients of one step; dropout is the same for the same seed."""
    net.zero_grad()
    torch.manual_seed(seed)
    loss = loss_of(net, x)
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def distance(a, b):
    """The relative distance of two dicts of gradients."""
    assert a.keys() == b.keys()
    num = sum(float((a[name] - b[name]).square().sum()) for name in a)
    return math.sqrt(num / sum(float(a[name].square().sum()) for name in a))


NETS = {
    "resnet50": (ResNet50, lambda: images(2, 64)),
    "mobilenetv3": (MobileNetV3, images),
    "convnext": (ConvNeXt, lambda: images(2, 64)),
    "vit": (ViT, images),
    "vit, attention in parts": (lambda: ViT(fused=False), images),
    "gpt": (GPT, tokens),
    "gpt, attention in parts": (lambda: GPT(fused=False), tokens),
    "lora": (lora, tokens),
    "lora, merged": (lambda: lora(True), tokens),
}


def make(name):
    torch.manual_seed(0)
    build, data = NETS[name]
    return build(), data()
