#!/usr/bin/env python3
"""Writes tests/train/golden/zoo/<net>.txt: the parameters of each built-in net, as PyTorch names and shapes them.

usage: tools/make_zoo_golden.py [FOLDER]

Needs torch and torchvision (the stored files are of 1.13 and 0.14). torchvision's nets come from torchvision; the others are
written down here with torch's modules. A line is "name dims", dims joined by 'x'; num_batches_tracked, which counts steps and
is no parameter, is left out.
"""
import pathlib
import sys

import torch
import torchvision
from torch import nn
from torchvision.models.resnet import BasicBlock

TORCHVISION = ("alexnet", "vgg16", "resnet18", "resnet50", "efficientnet_b0")


def stage(inputs, width, depth, stride):
    """Basic blocks, the first with the stride and, where the shape changes, a projection."""
    blocks = []
    for i in range(depth):
        step = stride if i == 0 else 1
        downsample = None
        if step != 1 or inputs != width:
            downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride=step, bias=False), nn.BatchNorm2d(width))
        blocks.append(BasicBlock(inputs, width, step, downsample))
        inputs = width
    return nn.Sequential(*blocks)


class CifarResNet(nn.Module):
    """He et al. 2016, section 4.2: 6 depth + 2 layers."""

    def __init__(self, depth):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = stage(16, 16, depth, 1)
        self.layer2 = stage(16, 32, depth, 2)
        self.layer3 = stage(32, 64, depth, 2)
        self.fc = nn.Linear(64, 10)


class Cnn28(nn.Module):
    """Twice two convolutions of 3 x 3 and a pooling by 2, then a linear layer on 64 x 7 x 7."""

    def __init__(self):
        super().__init__()
        widths = (1, 32, 32, 64, 64)
        for i in range(1, 5):
            setattr(self, f"conv{i}", nn.Conv2d(widths[i - 1], widths[i], 3, padding=1, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(widths[i]))
        self.fc = nn.Linear(64 * 7 * 7, 10)


def lines(model):
    return [
        f"{name} {'x'.join(map(str, tensor.shape))}\n"
        for name, tensor in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    ]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "train" / "golden" / "zoo"
    folder.mkdir(parents=True, exist_ok=True)
    nets = {name: getattr(torchvision.models, name)() for name in TORCHVISION}
    nets.update(resnet20=CifarResNet(3), resnet32=CifarResNet(5), cnn28=Cnn28())
    for name, model in nets.items():
        (folder / f"{name}.txt").write_text("".join(lines(model)), encoding="utf-8")
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters")
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}: {len(nets)} files in {folder}")


if __name__ == "__main__":
    main()
