"""A GPT of a few layers that learns to continue text, letter by letter. Any text file will do; the default is Comet's own documents.

    python -m comet_torch run examples/pytorch/gpt.py --steps 300
"""
import pathlib

import kit
import torch
import torch.nn.functional as F
from transformer import Gpt

DOCS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs"


def bytes_of(text):
    files = [pathlib.Path(text)] if text else sorted(DOCS.glob("*.md"))
    return torch.tensor(list(b"".join(file.read_bytes() for file in files)))


def batches(args, data):
    for _ in range(args.steps):
        starts = torch.randint(len(data) - args.length - 1, (args.batch, 1))
        tokens = data[starts + torch.arange(args.length + 1)]
        yield tokens[:, :-1], tokens[:, 1:]


def loss_of(model, batch):
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


@torch.no_grad()
def continued(model, start, length, n):
    tokens = torch.tensor([list(start.encode())])
    for _ in range(n):
        logits = model(tokens[:, -length:])[0, -1]
        tokens = torch.cat([tokens, torch.multinomial(logits.softmax(0), 1).view(1, 1)], 1)
    return bytes(tokens[0].tolist()).decode(errors="replace")


def main():
    args = kit.arguments(__doc__, text="", steps=100, batch=16, length=128, width=192, depth=4, heads=4, rate=1e-3)
    model = Gpt(256, args.length, args.width, args.depth, args.heads)
    optimizer = torch.optim.AdamW(model.parameters(), args.rate)
    data = bytes_of(args.text)
    print(continued(model, "Comet ", args.length, 40).__repr__(), "before")
    kit.train(args, model, optimizer, loss_of, batches(args, data))


if __name__ == "__main__":
    main()
