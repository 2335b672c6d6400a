"""The role of every tensor that six networks save, on any torch."""
from collections import Counter

import pytest
import torch

import comet_torch
import nets

FUSED = hasattr(torch.nn.functional, "scaled_dot_product_attention")
RECENT = hasattr(torch.autograd.graph, "node_creation_hook")

LOSS = {("LogSoftmax", "result"): ("log-softmax output", 1), ("NllLoss", "self"): ("shape only", 1), ("NllLoss", "target"): ("integers", 1),
        ("NllLoss", "total_weight"): ("statistics", 1)}


def convolutions(n):
    return {("Convolution", "input"): ("conv input", n), ("Convolution", "weight"): ("weight", n)}


def batch_norms(n):
    roles = {("NativeBatchNorm", field): ("statistics", n) for field in ("result1", "result2", "running_mean", "running_var")}
    return {**roles, ("NativeBatchNorm", "input"): ("batch norm input", n), ("NativeBatchNorm", "weight"): ("weight", n)}


def layer_norms(n):
    roles = {("NativeLayerNorm", field): ("statistics", n) for field in ("result1", "result2")}
    return {**roles, ("NativeLayerNorm", "input"): ("layer norm input", n), ("NativeLayerNorm", "weight"): ("weight", n),
            ("NativeLayerNorm", "bias"): ("weight", n)}


def linear(n, kind="Addmm"):
    return {(kind, "mat1" if kind == "Addmm" else "self"): ("linear input", n), (kind, "mat2"): ("weight", n)}


def attention(n, fused):
    if not fused:
        roles = {("Bmm", "self"): ("factor of a product", 2 * n), ("Bmm", "mat2"): ("factor of a product", 2 * n),
                 ("Softmax", "result"): ("softmax output", n)}
        return roles if RECENT else {**roles, ("Div", "other"): ("exact", n)}
    kind = "ScaledDotProductFlashAttentionForCpu"
    return {(kind, "query"): ("query or key", n), (kind, "key"): ("query or key", n), (kind, "value"): ("value", n),
            (kind, "output"): ("attention output", n), (kind, "logsumexp"): ("statistics", n)}


def gelus(n):
    return {("Gelu", "self"): ("gelu input", n)}


def older(**fields):
    """What torch before 2.15 saves besides."""
    return {} if RECENT else {tuple(name.split("_")): value for name, value in fields.items()}


def resnet50():
    pool = {("MaxPool2DWithIndices", "self"): ("shape only", 1), ("MaxPool2DWithIndices", "result1"): ("integers", 1)}
    return {**convolutions(53), **batch_norms(53), ("Relu", "result"): ("relu", 49), **pool, **linear(1), **LOSS,
            **older(Mean_self=("shape only", 1))}


def mobilenetv3():
    return {**convolutions(11), **batch_norms(7), ("Hardswish", "self"): ("hardswish input", 6), ("Relu", "result"): ("relu", 2),
            ("Hardsigmoid", "self"): ("inside an interval", 2), ("Mul", "self"): ("factor of a product", 2),
            ("Mul", "other"): Counter({"factor of a product": 2, "mask or constant": 1}), **linear(2), **LOSS,
            **older(Mean_self=("shape only", 3))}


def convnext():
    products = {("Mul", "self"): ("weight", 2), ("Mul", "other"): ("factor of a product", 2)}
    common = {**convolutions(3), **layer_norms(3), **gelus(2), **products, **LOSS}
    if RECENT:
        return {**common, **linear(5)}
    return {**common, **linear(1), **linear(4, "Mm"), ("Mean", "self"): ("shape only", 1)}


def vit(fused):
    return {**convolutions(1), **layer_norms(5), **gelus(2), **linear(9), ("Mul", "other"): ("mask or constant", 4),
            **attention(2, fused and FUSED), **LOSS}


def gpt(fused):
    return {**layer_norms(5), **gelus(2), **linear(8), **linear(1, "Mm"), ("Embedding", "indices"): ("integers", 2),
            **attention(2, fused and FUSED), **LOSS, **older(Embedding_weight=("weight", 2))}


def lora():
    """Frozen linear layers save their weight only."""
    return {**layer_norms(4), **gelus(2), ("Addmm", "mat2"): ("weight", 7), ("Mm", "self"): ("linear input", 8), ("Mm", "mat2"): ("weight", 8),
            **attention(2, FUSED), **LOSS, **older(Mul_other=("mask or constant", 4))}


def lora_merged():
    """The sum of a frozen weight and a product of two trained ones is a weight."""
    return {**layer_norms(4), **gelus(2), ("Addmm", "mat1"): ("linear input", 4), ("Addmm", "mat2"): ("weight", 7),
            ("Mm", "self"): ("weight", 4), ("Mm", "mat2"): ("weight", 5), **attention(2, FUSED), **LOSS,
            **older(Mul_other=("mask or constant", 4))}


EXPECTED = {"resnet50": resnet50, "mobilenetv3": mobilenetv3, "convnext": convnext, "vit": lambda: vit(True),
            "vit, attention in parts": lambda: vit(False), "gpt": lambda: gpt(True), "gpt, attention in parts": lambda: gpt(False),
            "lora": lora, "lora, merged": lora_merged}


def counted(expected):
    counts = Counter()
    for (kind, field), value in expected.items():
        for role, n in value.items() if isinstance(value, Counter) else [value]:
            counts[kind, field, role] += n
    return counts


def roles_of(net, x):
    found = Counter()
    with comet_torch.compress(net, eb="0.05std") as mem:
        mem.hooks.observer = lambda node, kind, fields: found.update((kind, saved.field, saved.role.value) for saved in fields)
        nets.loss_of(net, x).backward()
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_roles(name):
    net, x = nets.make(name)
    expected, found = counted(EXPECTED[name]()), roles_of(net, x)
    assert found == expected, f"missing {dict(expected - found)}, unexpected {dict(found - expected)}"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_no_node_is_missed(name):
    """Every tensor that autograd packs gets a role."""
    net, x = nets.make(name)
    packed = []
    with comet_torch.compress(net, eb="0.05std") as mem:
        mem.hooks.observer = lambda *made: None
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(mem.hooks.pack(t)) or packed[-1], mem.hooks.unpack):
            nets.loss_of(net, x).backward()
    assert packed and all(ticket.role is not None for ticket in packed)
