"""A U-Net that finds discs in noisy images: segmentation.

    python -m comet_torch run examples/pytorch/unet.py --steps 100
"""
import kit
import torch
import torch.nn.functional as F
from torch import nn


class Twice(nn.Sequential):
    """Two convolutions, each with batch norm and ReLU."""

    def __init__(self, n_in, n_out):
        layers = []
        for n in (n_in, n_out):
            layers += [nn.Conv2d(n, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([1] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(Twice(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, side in zip(reversed(self.up), reversed(self.join), reversed(kept[:-1])):
            x = join(torch.cat([side, up(x)], 1))
        return self.head(x)


def discs(batch, side):
    """Images of one disc in noise, and where the disc is."""
    centre, radius = side * torch.rand(batch, 2, 1, 1), side * (0.1 + 0.2 * torch.rand(batch, 1, 1))
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    inside = ((x - centre[:, 0]) ** 2 + (y - centre[:, 1]) ** 2 < radius**2).float().unsqueeze(1)
    return inside + 0.5 * torch.randn_like(inside), inside


def loss_of(model, batch):
    return F.binary_cross_entropy_with_logits(model(batch[0]), batch[1])


def main():
    args = kit.arguments(__doc__, steps=60, batch=16, side=96, width=32, rate=1e-3)
    model = UNet(args.width)
    optimizer = torch.optim.Adam(model.parameters(), args.rate)
    kit.train(args, model, optimizer, loss_of, (discs(args.batch, args.side) for _ in range(args.steps)))


if __name__ == "__main__":
    main()
