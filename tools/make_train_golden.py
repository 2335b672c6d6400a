#!/usr/bin/python3
"""Writes tests/train/golden/torch/<net>.json: losses of a few steps, and gradients and running statistics of the first, by PyTorch.

usage: tools/make_train_golden.py [--comet build/comet] [--salt TEXT] [--float] [--autocast] [--out FOLDER] [NET...]

Needs torch and torchvision (the stored files are of 1.13 and 0.14). A NET is a built-in one, or `operators` for the small nets of
tests/train/operators.nets, or `frozen` for nets in part frozen; without any, all are written. Nets are read from the text
that `comet models --show` prints and run by tools/torch_net.py; the five of torchvision are also run by torchvision's own modules and must agree. Dropout is off. Weights,
images and labels come from a formula (tests/train/training.c), the salt in front of each name gives other ones. Everything is computed
in double precision, so that the files do not depend on torch's kernels; --float keeps to floats. With --autocast the files say how far torch.autocast in bf16 is from
those doubles, instead of torch's floats: what an engine that computes in bf16 is allowed. tests/train/test_oracle.c checks them.
"""
import argparse
import copy
import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
import torchvision

import torch_net

ROOT = pathlib.Path(__file__).resolve().parent.parent
# batch, image side, steps, rate. Rates are such that torch's own floats stay within 2e-4 of its doubles.
CASES = {
    "cnn28": (4, 28, 20, 0.00005),
    "resnet20": (4, 32, 20, 0.0002),
    "resnet32": (4, 32, 20, 0.00001),
    "resnet18": (4, 64, 20, 0.0001),
    "resnet50": (4, 64, 20, 0.001),
    "efficientnet_b0": (4, 64, 20, 0.0001),
    "alexnet": (2, 224, 20, 0.000005),
    "vgg16": (2, 224, 20, 0.0000005),
}
# Scale of the batch norms that end a bottleneck's branch, where it is not 1. With 1, every block of a ResNet-50 with random weights
# doubles the rounding of the one before, relus flip, and torch's floats are 1e-2 from its doubles.
RESIDUAL = {"resnet50": 1 / 16}
# Nets of which a part is frozen, with rates of layers: what --freeze and --rate-of are given.
FROZEN = [
    ("resnet20", "conv1,bn1,layer*", ""),  # all but the head
    ("resnet20", "conv1,bn1,layer1.*,layer2.0", "fc=10x"),  # the first layers
    ("resnet20", "layer2", "layer3=0.5x,fc=4x"),  # gradients flow through
    ("resnet20", "*bn*", ""),  # batch norms alone
    ("resnet20", "*,!*.bias", "fc.bias=2x"),  # biases alone are trained
    ("efficientnet_b0", "features.0,features.1,features.2,features.3,features.4", "classifier=10x"),
]
TORCHVISION = ("alexnet", "vgg16", "resnet18", "resnet50", "efficientnet_b0")
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
ROBUST = 3e-4
N_SAMPLES = {"zoo": 32, "operators": 8}


def residual_of(net):
    return RESIDUAL.get(net.name, 1.0)


def batch_of(net, salt, number, batch, dtype):
    images = torch_net.formula(f"{salt}images.{number}", 0, 3**0.5, (batch, *net.input)).to(dtype)
    return images, torch_net.formula_labels(f"{salt}labels.{number}", net.classes, batch)


def samples(name, tensor, most):
    """All elements of a small tensor, or `most` at positions by the formula's hash."""
    flat = tensor.detach().flatten()
    if flat.numel() > most:
        flat = flat[torch.from_numpy(torch_net.hash_numbers(torch_net.hash_name(name), most).astype("int64")) % flat.numel()]
    return [float(f"{v:.7g}") for v in flat.tolist()]


def describe(name, tensor, most):
    return {"norm": float(f"{tensor.detach().double().norm().item():.9g}"), "samples": samples(name, tensor, most)}


def check_torchvision(net, images, labels, loss):
    """torchvision's module with the same weights gives the same loss and gradients."""
    model = getattr(torchvision.models, net.name)(num_classes=net.classes).to(images.dtype)
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    missing = model.load_state_dict({n: p.detach() for n, p in net.parameters.items()}, strict=False)
    if missing.unexpected_keys or any("running" not in k and "num_batches" not in k for k in missing.missing_keys):
        sys.exit(f"{net.name}: parameters differ from torchvision's: {missing}")
    other = F.cross_entropy(model.train()(images), labels)
    other.backward()
    worst = abs(other.item() - loss) / abs(loss)
    for name, p in model.named_parameters():
        worst = max(worst, ((p.grad - net.parameters[name].grad).norm() / p.grad.norm()).item())
    if not worst < (1e-9 if images.dtype == torch.float64 else 1e-3):
        sys.exit(f"{net.name}: differs from torchvision by {worst}")
    print(f"  torchvision's module agrees to {worst:.1e}")


def float_error(net, images, labels, salt, smoothing, autocast=False):
    """How far torch's own floats, or its autocast in bf16, are from its doubles, whose gradients the net has: the worst of all
    tensors, by norm."""
    twin = copy.copy(net)
    twin.parameters, twin.statistics = dict(net.parameters), dict(net.statistics)
    twin.formula_weights(salt, torch.float32, residual_of(net))
    try:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(twin.forward(images.float()), labels, label_smoothing=smoothing)
        loss.backward()
    except RuntimeError as e:  # torch 1.13 has no gradient of relu6 in bf16
        if not autocast or "not implemented" not in str(e):
            raise
        return float("inf")
    total = sum(p.grad.norm() ** 2 for p in net.trained().values()) ** 0.5
    errors = [(twin.parameters[n].grad.to(p.dtype) - p.grad).norm() / max(p.grad.norm(), 1e-4 * total) for n, p in net.trained().items()]
    return float(f"{max(errors).item():.2g}")


def groups(net, rate, rates):
    """Parameters with their rates; the last pattern that matches counts."""
    factors = {name: 1.0 for name in net.trained()}
    for pattern, factor in (item.split("=") for item in rates.split(",") if item):
        for name in factors:
            if torch_net.matches(pattern, name):
                factors[name] = float(factor.rstrip("x"))
    return [{"params": [net.parameters[name]], "lr": rate * factor} for name, factor in factors.items()]


def run(net, case, salt, dtype, most, smoothing=0.0, freeze="", rates="", autocast=False):
    batch, image, steps, rate = case
    net.formula_weights(salt, dtype, residual_of(net))
    optimiser = torch.optim.SGD(groups(net, rate, rates), rate, MOMENTUM, weight_decay=WEIGHT_DECAY)
    result = {"net": net.name, "salt": salt, "batch": batch, "image": image, "steps": steps, "rate": rate, "momentum": MOMENTUM,
              "weight_decay": WEIGHT_DECAY, "label_smoothing": smoothing, "n_samples": most,
              "residual": residual_of(net), "losses": []}
    if autocast:
        result["autocast"] = True
    if freeze:
        result.update({"freeze": freeze, "rates": rates})
    for step in range(steps):
        images, labels = batch_of(net, salt, step, batch, dtype)
        optimiser.zero_grad()
        loss = F.cross_entropy(net.forward(images), labels, label_smoothing=smoothing)
        loss.backward()
        result["losses"].append(float(f"{loss.item():.9g}"))
        if step == 0:
            result["gradients"] = {n: describe(n, p.grad, most) for n, p in net.trained().items()}
            result["statistics"] = {n: describe(n, s, most) for n, s in net.statistics.items()}
            result["float_error"] = float_error(net, images, labels, salt, smoothing, autocast)
            if net.name in TORCHVISION and smoothing == 0 and not freeze:
                check_torchvision(net, images, labels, loss.item())
        optimiser.step()
    print(f"{net.name}: losses {result['losses'][0]:.4f} ... {result['losses'][-1]:.4f}", flush=True)
    return result


def robust_salt(net, case, salt):
    """A salt with which rounding flips no relu, or the best of a few: one flip in a deep net moves gradients by 1e-2, in torch's
    floats as in any."""
    errors = {}
    for letter in ("", *"abcdefgh"):
        net.formula_weights(salt + letter, torch.float64, residual_of(net))
        images, labels = batch_of(net, salt + letter, 0, case[0], torch.float64)
        F.cross_entropy(net.forward(images), labels).backward()
        errors[salt + letter] = float_error(net, images, labels, salt + letter, 0.0)
        if errors[salt + letter] < ROBUST:
            break
    return min(errors, key=errors.get)


def operators(salt, dtype, autocast):
    nets = torch_net.read_nets((ROOT / "tests" / "train" / "operators.nets").read_text(encoding="utf-8"))
    results = [run(net, (3, 0, 3, 0.001), salt, dtype, N_SAMPLES["operators"], 0.1 * (i % 2), autocast=autocast)
               for i, net in enumerate(nets)]
    return [r for r in results if r["float_error"] < float("inf")]


def zoo(name, comet, salt, dtype, autocast):
    text = subprocess.run([comet, "models", "--show", name, "--image", str(CASES[name][1])], check=True, capture_output=True, text=True)
    net = torch_net.Net(text.stdout)
    if dtype == torch.float64:
        salt = robust_salt(net, CASES[name], salt)
    return [run(net, CASES[name], salt, dtype, N_SAMPLES["zoo"], autocast=autocast)]


def frozen(comet, salt, dtype):
    results = []
    for name, freeze, rates in FROZEN:
        batch, image, _, rate = CASES[name]
        text = subprocess.run([comet, "models", "--show", name, "--image", str(image)], check=True, capture_output=True, text=True)
        net = torch_net.Net(text.stdout)
        net.freeze(freeze)
        case = (batch, image, 8, rate)
        results.append(run(net, case, robust_salt(net, case, salt), dtype, N_SAMPLES["operators"], 0.0, freeze, rates))
    return results


def write(path, results):
    """One tensor a line, so that a change shows in review."""
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": results})
    text = text.replace('"gradients": {', '"gradients": {\n').replace('"statistics": {', '\n"statistics": {\n').replace("]}, ", "]},\n")
    path.write_text(text + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nets", nargs="*", metavar="NET")
    parser.add_argument("--comet", default=str(ROOT / "build" / "comet"))
    parser.add_argument("--salt", default="")
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "train" / "golden" / "torch")
    args = parser.parse_args()
    dtype = torch.float32 if args.float else torch.float64
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.nets or ["operators", "frozen", *CASES]:
        if name == "frozen":
            results = frozen(args.comet, args.salt, dtype)
        else:
            results = (operators(args.salt, dtype, args.autocast) if name == "operators" else
                       zoo(name, args.comet, args.salt, dtype, args.autocast))
        write(args.out / f"{name}.json", results)


if __name__ == "__main__":
    main()
