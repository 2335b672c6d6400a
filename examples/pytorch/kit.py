"""What the examples share: their options, plain or compressed training, and what is printed at the end."""
import argparse
import contextlib
import json
import time

import torch

import comet_torch


def arguments(description, **defaults):
    """An argument for each default, of its type, and those that all examples have."""
    parser = argparse.ArgumentParser(description=description)
    for name, value in defaults.items():
        parser.add_argument("--" + name, type=type(value), default=value, help="default: %(default)s")
    parser.add_argument("--raw", action="store_true", help="train without compression")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    return args


def train(args, model, optimizer, loss_of, batches):
    """The training loop: the line with `compress` is all that Comet needs."""
    losses, begin = [], time.perf_counter()
    with contextlib.nullcontext() if args.raw else comet_torch.compress(model, optimizer) as mem:
        for batch in batches:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model, batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    summary(losses, time.perf_counter() - begin, mem)
    return mem


def summary(losses, seconds, mem):
    """Prints the report, and as the last line what a program can read."""
    if mem is not None:
        print(mem.report())
    few = max(1, len(losses) // 10)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3
    totals = mem.figures.totals() if mem is not None else {"raw": 0, "stored": 0}
    print(json.dumps({"first_loss": sum(losses[:few]) / few, "last_loss": sum(losses[-few:]) / few, "seconds": seconds,
                      "peak_rss_mb": peak, "saved_mb": totals["raw"] / 1e6, "stored_mb": totals["stored"] / 1e6}))
