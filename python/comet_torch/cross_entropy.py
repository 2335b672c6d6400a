"""The cross entropy of large logits without tensors of their size besides them.

PyTorch's own makes a log-softmax result as large as the logits, and its backward holds three such tensors: that result, its gradient and
that of the logits. For a vocabulary of 50257 words they are the peak of a whole net. Within a context, `torch.nn.functional.cross_entropy`
computes rows in blocks instead, by the same kernels, so that losses and, where nothing is coded, gradients are those of PyTorch bit for
bit. Logits are coded as log-probabilities (forms.py); backward decodes these into the memory of the gradient, and turns them into it block
by block. Calls that it does not serve (weights of classes, smoothing, probabilities as targets, small or strided logits) go to PyTorch's.
"""
import contextlib

import torch
from torch.nn import functional as F

from .handles import Ticket, changed
from .structure import in_backward

KIND = "CometCrossEntropy"  # of its node
_LEAST_BYTES = _BLOCK_BYTES = 8 << 20
_IGNORED = -100
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_nll = torch.ops.aten.nll_loss_forward
_nll_backward = torch.ops.aten.nll_loss_backward
_log_softmax_backward = torch.ops.aten._log_softmax_backward_data
# Tells whose hooks are in force, as those of torch.utils.checkpoint may lie within ours; None where torch does not tell.
_hooks_in_force = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


def _blocks(n_rows, bytes_row):
    step = max(1, _BLOCK_BYTES // bytes_row)
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def _row_bytes(x):
    return x.shape[1] * x.element_size()


def gradient_of_rows(gradient, y, target, reduction, ignore_index, total_weight, rows):
    """That of log-softmax results y, which are the given rows of all."""
    gradient = gradient if reduction else gradient[rows]
    return _nll_backward(gradient.to(y.dtype), y, target[rows], None, reduction, ignore_index, total_weight.to(y.dtype))


class CometCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, reduction, ignore_index):
        of_target = torch.empty(x.shape[0], 1, dtype=x.dtype)
        index = target.clamp(min=0)[:, None]
        for rows in _blocks(x.shape[0], _row_bytes(x)):
            of_target[rows] = torch.log_softmax(x[rows], -1).gather(1, index[rows])
        loss, ctx.total_weight = _nll(of_target, torch.where(target == ignore_index, _IGNORED, 0), None, reduction, _IGNORED)
        ctx.target, ctx.version, ctx.reduction, ctx.ignore_index = target, target._version, reduction, ignore_index
        ctx.save_for_backward(x)
        return loss

    @staticmethod
    def backward(ctx, gradient):
        if ctx.target._version != ctx.version:
            raise changed(ctx.target.shape, ctx.target._version, ctx.version)
        x = ctx.saved_tensors[0]
        facts = (ctx.target, ctx.reduction, ctx.ignore_index, ctx.total_weight)
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted; log-probabilities have the same one as logits
            dy = gradient_of_rows(gradient, x, *facts, slice(None))
            return dy - torch.softmax(x, -1) * dy.sum(-1, keepdim=True), None, None, None
        ticket = ctx._raw_saved_tensors[0].data
        decoded = type(ticket) is Ticket and ticket.content is not None and ticket.content.pieces is not None
        return _gradient(x.detach(), decoded, gradient, facts), None, None, None


def _gradient(x, decoded, gradient, facts):
    """That of the logits. `decoded`: x are log-probabilities in memory of their own, which becomes that of the gradient."""
    out = x if decoded else torch.empty_like(x)
    for rows in _blocks(x.shape[0], _row_bytes(x)):
        y = x[rows] if decoded else torch.log_softmax(x[rows], -1)
        out[rows] = _log_softmax_backward(gradient_of_rows(gradient, y, *facts, rows), y, -1, x.dtype)
    return out


def _serves(hooks, x, target, weight, reduction, options):
    if weight is not None or any(options.values()) or reduction not in _REDUCTIONS or not torch.is_grad_enabled():
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or not hooks.active or in_backward():
        return False
    if type(x) is not torch.Tensor or type(target) is not torch.Tensor or not x.requires_grad or x.dim() != 2 or target.dim() != 1:
        return False
    if target.dtype != torch.int64 or not x.is_cpu or not x.is_contiguous() or len(target) != len(x):
        return False
    if not x.is_floating_point() or x.numel() * x.element_size() < _LEAST_BYTES:
        return False
    in_force = _hooks_in_force(True)
    return in_force is not None and in_force[0] == hooks.pack


@contextlib.contextmanager
def blockwise(hooks):
    """Within it, torch.nn.functional.cross_entropy is the one of this file where that serves a call. On torch that does not tell what is
    needed it stays PyTorch's."""
    if _hooks_in_force is None or not hasattr(torch.autograd.graph, "node_creation_hook"):
        yield
        return
    before = F.cross_entropy

    def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
        options = dict(size_average=size_average, reduce=reduce, label_smoothing=label_smoothing)
        if _serves(hooks, input, target, weight, reduction, options):
            known = target != ignore_index
            if bool(((target >= 0) & (target < input.shape[1]) | ~known).all()):
                return CometCrossEntropy.apply(input, target, _REDUCTIONS[reduction], ignore_index)
        return before(input, target, weight=weight, ignore_index=ignore_index, reduction=reduction, **options)

    F.cross_entropy = cross_entropy
    try:
        yield
    finally:
        if F.cross_entropy is cross_entropy:
            F.cross_entropy = before
