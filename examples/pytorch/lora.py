"""LoRA: a trained GPT is frozen, and small matrices beside its linear layers learn other text.

    python -m comet_torch run examples/pytorch/lora.py --steps 100
"""
import gpt
import kit
import torch
import torch.nn.functional as F
from torch import nn
from transformer import Gpt


class Lora(nn.Module):
    """A frozen linear layer plus a product of two narrow ones, which begins at zero."""

    def __init__(self, linear, rank, scale=2.0):
        super().__init__()
        self.linear, self.scale = linear, scale
        self.a = nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.a), self.b)


def with_lora(model, rank):
    """Freezes the model, and puts a Lora in place of each linear layer of its blocks."""
    for p in model.parameters():
        p.requires_grad_(False)
    for block in model.blocks:
        for module in list(block.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, Lora(child, rank))
    return model


def main():
    args = kit.arguments(__doc__, text="", weights="", steps=60, batch=16, length=128, width=192, depth=4, heads=4, rank=8, rate=2e-3)
    model = Gpt(256, args.length, args.width, args.depth, args.heads)
    if args.weights:
        model.load_state_dict(torch.load(args.weights))
    model = with_lora(model, args.rank)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), args.rate)
    kit.train(args, model, optimizer, gpt.loss_of, gpt.batches(args, gpt.bytes_of(args.text)))


if __name__ == "__main__":
    main()
