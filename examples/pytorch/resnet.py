"""A ResNet of torchvision on CIFAR-10, or on generated images where it is not given.

    python -m comet_torch run examples/pytorch/resnet.py --cifar DIR --epochs 2
    python -m comet_torch run examples/pytorch/resnet.py --raw --cifar DIR --epochs 2
"""
import kit
import torch
import torch.nn.functional as F
import torchvision


def generated(n, classes=10, side=32):
    """Coloured gratings with noise: the class decides the direction."""
    labels = torch.randint(classes, (n,))
    angle = labels * torch.pi / classes
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    wave = torch.sin(x * torch.cos(angle).view(-1, 1, 1) + y * torch.sin(angle).view(-1, 1, 1))
    return wave.unsqueeze(1) * torch.rand(n, 3, 1, 1) + 0.3 * torch.randn(n, 3, side, side), labels


def cifar(folder):
    """CIFAR-10's training part, each channel with mean 0 and deviation 1."""
    data = torchvision.datasets.CIFAR10(folder, train=True)
    images = torch.from_numpy(data.data).permute(0, 3, 1, 2).float()
    mean, deviation = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return (images - mean) / deviation, torch.tensor(data.targets)


def batches(args, images, labels):
    for _ in range(args.epochs):
        for chosen in torch.randperm(len(images)).split(args.batch):
            yield images[chosen], labels[chosen]


def main():
    args = kit.arguments(__doc__, cifar="", net="resnet18", n=2048, batch=128, epochs=1, rate=0.05)
    images, labels = cifar(args.cifar) if args.cifar else generated(args.n)
    model = getattr(torchvision.models, args.net)(num_classes=10)
    model.conv1, model.maxpool = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False), torch.nn.Identity()  # small images
    optimizer = torch.optim.SGD(model.parameters(), args.rate, 0.9, weight_decay=5e-4)
    kit.train(args, model, optimizer, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), batches(args, images, labels))


if __name__ == "__main__":
    main()
