"""Tensors of which backward needs only whether each value lies inside an interval: one bit an element.

hardtanh and relu6, hardsigmoid, clamp and threshold pass a gradient on where their input was inside. What unpack gives back is one
value inside and one outside.
"""
import functools
import math

import torch
from torch.nn import functional as F

from .handles import version_token

_FUNCTIONS = {
    "Hardtanh": lambda x: F.hardtanh(x, -3.0, 3.0),
    "Hardsigmoid": F.hardsigmoid,
    "Threshold": lambda x: F.threshold(x, -3.0, 0.0),
    "Clamp": lambda x: x.clamp(-3.0, 3.0),
    "ClampMin": lambda x: x.clamp_min(-3.0),
    "ClampMax": lambda x: x.clamp_max(3.0),
}


@functools.lru_cache(maxsize=None)
def edges():
    """{kind: (at the least, at the greatest, at NaN: does the gradient pass?)}, which differs between versions of torch. To be
    called before there are hooks, which must not make nodes."""
    passes = {}
    with torch.enable_grad():
        for kind, function in _FUNCTIONS.items():
            x = torch.tensor([[-3.0], [3.0], [math.nan]]).repeat(1, 64).requires_grad_()  # 64: by the code for vectors
            function(x).backward(torch.ones_like(x))
            passes[kind] = tuple(bool(g != 0) for g in x.grad[:, 0])
    return passes


def _limits(node, kind):
    """(least, greatest), or None where they are tensors."""
    if hasattr(node, "_raw_saved_min") or hasattr(node, "_raw_saved_max"):
        return None
    if kind == "Hardtanh":
        return float(node._saved_min_val), float(node._saved_max_val)
    if kind == "Hardsigmoid":
        return -3.0, 3.0
    least, greatest = (getattr(node, name, None) for name in ("_saved_min", "_saved_max"))
    if kind == "Threshold":
        least = node._saved_threshold
    return -math.inf if least is None else float(least), math.inf if greatest is None else float(greatest)


def _inside(tensor, kind, least, greatest):
    at_least, at_greatest, at_nan = edges()[kind]
    inside = None
    if not math.isinf(least):
        inside = tensor >= least if at_least else tensor > least
    if not math.isinf(greatest):
        below = tensor <= greatest if at_greatest else tensor < greatest
        inside = below if inside is None else inside & below
    return inside | torch.isnan(tensor) if at_nan else inside


def _values(least, greatest):
    """A value inside, and one outside."""
    if math.isinf(least) and math.isinf(greatest):
        return None
    if math.isinf(greatest):
        return least + 1 + abs(least), least - 1 - abs(least)
    outside = greatest + 1 + abs(greatest)
    return (greatest - 1 - abs(greatest) if math.isinf(least) else (least + greatest) / 2), outside


class Interval:
    """What a ticket refers to in place of a content."""

    __slots__ = ("session", "block", "shape", "stride", "dtype", "values", "token", "version", "coded_bytes", "raw_bytes", "__weakref__")

    def __init__(self, session, tensor, inside, values):
        self.session, self.values, self.dtype = session, values, tensor.dtype
        self.shape, self.stride = inside.shape, inside.stride()
        self.token, self.version = version_token(tensor), tensor._version
        self.block = session.pack_two(inside)
        self.raw_bytes, self.coded_bytes = tensor.numel() * tensor.element_size(), session.block_bytes(self.block)

    def __del__(self):
        if self.block is not None:
            self.session.free(self.block)

    def decode(self):
        inside = self.session.empty_strided(self.shape, self.stride, dtype=torch.bool)
        self.session.decode(self.block, inside, inside.numel())
        first, second = self.values
        return torch.full_like(inside, second, dtype=self.dtype).masked_fill_(inside, first)


def interval_of(session, node, kind, tensor):
    """The Interval of a tensor that `node` saved, or None where the limits are such that it has to be kept itself."""
    limits = _limits(node, kind)
    if limits is None:
        return None
    least, greatest = limits
    values = None if not least <= greatest else _values(least, greatest)
    if values is None or not torch.tensor(values, dtype=tensor.dtype).isfinite().all():
        return None
    inside = _inside(tensor, kind, least, greatest)
    if not _is_dense(inside):
        inside = inside.contiguous()
    return Interval(session, tensor, inside, values)


def _is_dense(tensor):
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
