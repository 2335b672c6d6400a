"""A small vision transformer on the generated images of resnet.py; its blocks are in transformer.py.

    python -m comet_torch run examples/pytorch/vit.py --steps 100
"""
import kit
import torch
import torch.nn.functional as F
from resnet import generated
from transformer import Vit


def main():
    args = kit.arguments(__doc__, steps=60, batch=64, width=192, depth=6, heads=3, dropout=0.1, rate=5e-4)
    model = Vit(32, 4, 10, args.width, args.depth, args.heads, args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), args.rate)
    kit.train(args, model, optimizer, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]),
              (generated(args.batch) for _ in range(args.steps)))


if __name__ == "__main__":
    main()
