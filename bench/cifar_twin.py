#!/usr/bin/python3
"""PyTorch's twin of `comet train --model resnet20 --data cifar10:DIR --epochs 5 --batch 128 --rate 0.1`.

usage: bench/cifar_twin.py DIR [SEED...] [--epochs N] [--batch N] [--rate R] [--threads N] [--max-steps N]

DIR holds CIFAR-10's data_batch_1.bin ... data_batch_5.bin and test_batch.bin. The same recipe on both sides: images shifted by up to
4 pixels over black and flipped by chance, channels normalised, SGD with momentum 0.9 and weight decay 5e-4, one-cycle up to the rate
0.1, mean cross entropy, the last batch of an epoch dropped if it is not full. Prints a line of JSON a seed.
"""
import argparse
import json
import math
import pathlib
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from make_zoo_golden import CifarResNet  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class ResNet20(CifarResNet):
    """Weights as comet begins them: He's normal by fan out for convolutions, torch's own for the linear layer."""

    def __init__(self):
        super().__init__(3)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def read(folder, names):
    rows = numpy.concatenate([numpy.fromfile(pathlib.Path(folder) / f"{n}.bin", numpy.uint8).reshape(-1, 3073) for n in names])
    images = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy())
    return images, torch.from_numpy(rows[:, 0].astype(numpy.int64))


def normalise(images):
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    return (images.float() / 255 - mean) / std


def augment(images):
    """Each image from its own place in the padded one, and half of them mirrored."""
    n = len(images)
    padded = F.pad(images, (4, 4, 4, 4))
    rows = torch.randint(9, (n, 1)) + torch.arange(32)
    columns = torch.randint(9, (n, 1)) + torch.arange(32)
    columns = torch.where(torch.rand(n, 1) < 0.5, columns.flip(1), columns)
    return padded[torch.arange(n).view(n, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1), rows.view(n, 1, 32, 1), columns.view(n, 1, 1, 32)]


def one_cycle(rate, step, n_steps):
    """torch's OneCycleLR without its cycle of the momentum, which comet does not have."""
    begin, peak = rate / 25, 0.3 * n_steps - 1
    if step <= peak:
        return rate + (begin - rate) / 2 * (math.cos(math.pi * step / peak) + 1)
    end = begin / 1e4
    return end + (rate - end) / 2 * (math.cos(math.pi * (step - peak) / (n_steps - 1 - peak)) + 1)


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    hits, loss = 0, 0.0
    for i in range(0, len(images), 500):
        scores = model(normalise(images[i : i + 500]))
        hits += (scores.argmax(1) == labels[i : i + 500]).sum().item()
        loss += F.cross_entropy(scores, labels[i : i + 500], reduction="sum").item()
    model.train()
    return hits / len(images), loss / len(images)


def train(args, seed, data):
    (images, labels), (test_images, test_labels) = data
    torch.manual_seed(seed)
    model = ResNet20().train()
    optimiser = torch.optim.SGD(model.parameters(), args.rate, 0.9, weight_decay=5e-4)
    per_epoch = len(images) // args.batch
    n_steps, step, begin = per_epoch * args.epochs, 0, time.perf_counter()
    for _ in range(args.epochs):
        order = torch.randperm(len(images))
        for i in range(per_epoch):
            if args.max_steps and step >= args.max_steps:
                break
            optimiser.param_groups[0]["lr"] = one_cycle(args.rate, step, n_steps)
            chosen = order[i * args.batch : (i + 1) * args.batch]
            optimiser.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(normalise(augment(images[chosen]))), labels[chosen])
            loss.backward()
            optimiser.step()
            step += 1
    seconds = time.perf_counter() - begin
    top1, test_loss = evaluate(model, test_images, test_labels)
    return {"seed": seed, "top1": top1, "loss": test_loss, "train_loss": loss.item(), "epochs": args.epochs, "steps": step,
            "seconds": round(seconds, 1), "images_per_s": round(step * args.batch / seconds, 1)}


def main():
    parser = argparse.ArgumentParser(description="PyTorch's twin of comet train on CIFAR-10.")
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3], metavar="SEED")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    data = read(args.folder, [f"data_batch_{i}" for i in range(1, 6)]), read(args.folder, ["test_batch"])
    for seed in args.seeds:
        print(json.dumps(train(args, seed, data)), flush=True)


if __name__ == "__main__":
    main()
