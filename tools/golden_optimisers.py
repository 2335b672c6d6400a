#!/usr/bin/env python3
"""Prints tests/train/optimiser_golden.h: what PyTorch's optimisers and one-cycle schedule give on a few numbers.

usage: tools/golden_optimisers.py > tests/train/optimiser_golden.h      (needs torch; the result is checked in)
"""
import torch

N_STEPS, N = 4, 6
WEIGHTS = [0.5, -1.25, 3.0, 1e-3, -0.7, 2.2]
CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.1, weight_decay=5e-4)),
    ("sgd", dict(lr=0.05, momentum=0.9, weight_decay=5e-4)),
    ("sgd", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-2)),
    ("adamw", dict(lr=1e-2)),
    ("adamw", dict(lr=1e-3, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6)),
]
ONECYCLE = [(0.1, 50), (0.4, 7), (1.0, 1955), (0.1, 2)]


def gradient(step, i):
    """Any numbers will do; exact in float32."""
    return ((step * 7 + i * 3) % 11 - 5) / 8


def run(kind, settings):
    w = torch.tensor(WEIGHTS, dtype=torch.float32, requires_grad=True)
    optimiser = (torch.optim.SGD if kind == "sgd" else torch.optim.AdamW)([w], **settings)
    for step in range(N_STEPS):
        w.grad = torch.tensor([gradient(step, i) for i in range(N)], dtype=torch.float32)
        optimiser.step()
    return w.detach().tolist()


def onecycle(rate, total):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total, cycle_momentum=False)
    rates = []
    for step in range(total):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if step + 1 < total:
            schedule.step()
    return rates


def main():
    print("/* Made by tools/golden_optimisers.py with torch %s. */" % torch.__version__)
    print("enum { GOLDEN_STEPS = %d, GOLDEN_N = %d };" % (N_STEPS, N))
    print("static const float golden_weights[GOLDEN_N] = {%s};" % ", ".join(f"{w!r}f" for w in WEIGHTS))
    print("static const struct {\n    comet_optimiser_kind kind;\n    double rate, momentum, weight_decay, beta1, beta2, eps;")
    print("    bool nesterov;\n    double weights[GOLDEN_N];\n} golden_cases[] = {")
    for kind, s in CASES:
        betas = s.get("betas", (0.9, 0.999))
        decay = s.get("weight_decay", 0 if kind == "sgd" else 0.01)
        print("    {COMET_OPTIMISER_%s, %r, %r, %r, %r, %r, %r, %s,\n     {%s}}," % (
            kind.upper(), s["lr"], s.get("momentum", 0), decay, *betas, s.get("eps", 1e-8),
            "true" if s.get("nesterov") else "false", ", ".join("%.9g" % w for w in run(kind, s))))
    print("};")
    print("static const struct {\n    double rate;\n    uint64_t n_steps, step;\n    double expected;\n} golden_onecycle[] = {")
    for rate, total in ONECYCLE:
        rates = onecycle(rate, total)
        steps = {0, 1, total // 10, total * 3 // 10 - 1, total * 3 // 10, total // 2, total - 1}
        for step in sorted(steps & set(range(total))):
            print("    {%r, %d, %d, %r}," % (rate, total, step, rates[step]))
    print("};")


if __name__ == "__main__":
    main()
