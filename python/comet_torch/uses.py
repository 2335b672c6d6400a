"""What each kind of node does with an error in what it saved: the watches that measure it in assessed steps.

`watch_of(node, kind, fields, facts)` is asked when a node was made, with its tensors still raw. A watch keeps small samples of them
until the node has run in backward, then `observe(grad_inputs, grad_outputs)` gives observations, one for each consumer. A watch never
refers to its node: the node refers to the watch.
"""
import functools
import math
from typing import NamedTuple, Optional

import torch

from . import gains, roles
from .attention_gains import AttentionSample, usable
from .cross_entropy import gradient_of_rows
from .roles import Role
from .samples import ConvolutionSampler, ProductSampler, Sample
from .spread import rows_of, taken

_ROW_ELEMENTS = 1 << 18  # of the rows that a sample of rows has
_MOST_ROWS = 1024
_ELEMENTS = 1 << 14  # of elementwise functions: a few rows of a batch make most of its gradient
# Uses that no error harms: backward reads the signs, or only the shape.
HARMLESS = frozenset({Role.RELU, Role.SHAPE})


class Facts(NamedTuple):
    """How a saved tensor is stored in this step."""

    eb: float  # however the values come about
    nonzero: float  # share of elements
    form: Optional[str]  # of which values the error is that eb bounds, as in Bound
    turn: int  # counts the times that this use was measured
    sampled: bool  # it is its turn to keep a sample
    sources: tuple  # (key, eb) of the uses whose errors it has: its own, or of tensors that it is computed from


class Observation(NamedTuple):
    key: str  # of the use
    kind: str  # "weight" or "scale": parameter consumers; "passed"
    gain: Optional[float]  # None: not known
    gradient: Optional[torch.Tensor] = None  # of a parameter consumer
    quotient: float = float("nan")  # measured over predicted squared error
    local: Optional[float] = None  # of several gradients passed on, the largest gain in units of one's own energy


def _gradient(grads, index):
    return grads[index] if index < len(grads) and grads[index] is not None else None


# ---- weights ----


@functools.lru_cache(maxsize=1024)
def _taps_of_side(inputs, outputs, kernel, stride, padding, dilation, transposed):
    """Inputs that a mean output position meets along one side: taps on padding meet none."""
    steps, limit = (inputs, outputs) if transposed else (outputs, inputs)
    met = sum(0 <= p * stride + k * dilation - padding < limit for p in range(steps) for k in range(kernel))
    return met / outputs


class _Convolution:
    def __init__(self, node, fields, facts):
        used, weight = fields.get("input") or fields["self"], fields["weight"]
        self.key, self.facts, self.of_parameter = used.key, facts[used.key], used.role is Role.CONV_INPUT
        self.sampler = ConvolutionSampler(node, weight.tensor.shape)
        self.inputs = tuple(used.tensor.shape)
        self.sample = Sample(self.sampler, used.tensor, self.facts.turn) if self.facts.sampled else None
        self.samples = [(used, self.sample)] if self.sample else []

    def _taps(self, outputs):
        s = self.sampler
        taps = self.inputs[-len(s.stride) - 1] / s.groups
        for side in range(len(s.stride)):
            at = side - len(s.stride)
            taps *= _taps_of_side(self.inputs[at], outputs[at], s.weight_shape[at], s.stride[side], s.padding[side], s.dilation[side],
                                  s.transposed)
        return taps

    def observe(self, grad_inputs, grad_outputs):
        dy, dw = grad_outputs[0], _gradient(grad_inputs, 1)
        if dy is None or dw is None:
            return []
        taps = self._taps(dy.shape)
        gain = gains.weighted(taps, self.facts.nonzero, gains.energy(dy))
        if not self.of_parameter:  # the weight is an activation
            return [Observation(self.key, "passed", gains.ratio(3 * gain, gains.energy(dw)))]
        quotient = self.sample.quotient(dy, taps, self.facts.eb) if self.sample else float("nan")
        return [Observation(self.key, "weight", gain, dw, quotient)]


class _Product:
    """Matrix products: an operand of a linear layer, or a factor of a product of activations."""

    def __init__(self, node, kind, fields, facts):
        edges = roles.PRODUCTS[kind]
        self.operands, self.samples = [], []
        for field, edge in edges.items():
            used = fields.get(field)
            if used is None or used.key not in facts:
                continue
            is_left = edge == min(edges.values())
            other = next(e for e in edges.values() if e != edge)
            n_summed = used.tensor.shape[-1 if is_left else -2] if used.tensor.dim() > 1 else used.tensor.numel()
            sample = None
            if used.role is Role.LINEAR_INPUT and facts[used.key].sampled:
                sample = Sample(ProductSampler(is_left), used.tensor, facts[used.key].turn)
                self.samples.append((used, sample))
            self.operands.append((used.key, used.role, facts[used.key], n_summed, other, sample))

    def observe(self, grad_inputs, grad_outputs):
        dy = grad_outputs[0]
        if dy is None:
            return []
        dy_energy, found = gains.energy(dy), []
        for key, role, facts, n_summed, other, sample in self.operands:
            gradient = _gradient(grad_inputs, other)
            if gradient is None:
                continue
            if role is Role.LINEAR_INPUT:
                quotient = sample.quotient(dy, n_summed, facts.eb) if sample else float("nan")
                found.append(Observation(key, "weight", gains.weighted(n_summed, facts.nonzero, dy_energy), gradient, quotient))
            else:
                found.append(Observation(key, "passed", gains.product(n_summed, facts.nonzero, dy_energy, gains.energy(gradient))))
        return found


class _ElementwiseProduct:
    """x * y: an error in x reaches the gradient of y, which is a weight (the scale of a layer, LoRA's) or is passed on."""

    samples = ()

    def __init__(self, node, fields, facts):
        self.operands = []
        for field, edge in roles.ELEMENTWISE_PRODUCTS["Mul"].items():
            used = fields.get(field)
            if used is None or used.key not in facts:
                continue
            other = 1 - edge
            edges = node.next_functions
            of_weights = other < len(edges) and roles.is_of_weights(edges[other][0])
            self.operands.append((used.key, facts[used.key], other, of_weights))

    def observe(self, grad_inputs, grad_outputs):
        dy = grad_outputs[0]
        if dy is None:
            return []
        dy_energy, found = gains.energy(dy), []
        for key, facts, other, of_weights in self.operands:
            gradient = _gradient(grad_inputs, other)
            if gradient is None:
                continue
            if of_weights:
                found.append(Observation(key, "weight", gains.weighted(1, facts.nonzero, dy_energy), gradient))
            else:
                found.append(Observation(key, "passed", gains.product(1, facts.nonzero, dy_energy, gains.energy(gradient))))
        return found


# ---- norms ----


class _BatchNorm:
    samples = ()

    def __init__(self, node, kind, fields):
        used = fields["input"]
        self.key, self.training = used.key, bool(node._saved_training)
        inverse = fields["result2"].tensor if self.training else None
        if not self.training:
            epsilon = node._saved_eps if kind == "NativeBatchNorm" else node._saved_epsilon
            inverse = (fields["running_var"].tensor.detach() + epsilon).rsqrt()
        self.inverse = inverse.detach().clone()
        weight = fields.get("weight")
        self.gamma = weight.tensor.detach() if weight is not None and weight.tensor is not None else None

    def observe(self, grad_inputs, grad_outputs):
        dy, dgamma, dbeta = grad_outputs[0], _gradient(grad_inputs, 1), _gradient(grad_inputs, 2)
        if dy is None:
            return []
        if not self.training:  # what is passed on does not depend on the input
            passed, scale = 0.0, self._scale(dy)
        elif dgamma is None or dbeta is None:
            passed, scale = self._without_sums(dy, _gradient(grad_inputs, 0)), self._scale(dy)
        else:
            scale, passed = gains.batch_norm(dy, self.inverse, self.gamma, dgamma, dbeta)
        found = [] if dgamma is None else [Observation(self.key, "scale", scale, dgamma)]
        return found + [Observation(self.key, "passed", passed)]

    def _scale(self, dy):
        return float((gains.channel_energies(dy) * self.inverse.double().square()).sum()) / 3

    def _without_sums(self, dy, dx):
        """Where gamma or beta is absent or frozen, so that their gradients do not tell: each channel is a row."""
        if dx is None:
            return None
        g, dx = (t.detach().transpose(0, 1).reshape(dy.shape[1], -1) for t in (dy, dx))
        g = g if self.gamma is None else g * self.gamma[:, None]
        return gains.normalised_rows(g, dx, self.inverse, False)


class _RowNorm:
    """Layer norm, RMS norm and group norm."""

    samples = ()

    def __init__(self, node, kind, fields, facts):
        used = fields["input"]
        self.key, self.of_row = used.key, facts[used.key].form == "row"
        inverse = fields["result1" if kind == "FusedRmsNorm" else "result2"].tensor.detach().reshape(-1)
        self.inverse = inverse.float().clone()
        self.n_rows = inverse.numel()
        self.n_groups = int(node._saved_group) if kind == "NativeGroupNorm" else 0
        weight = fields.get("weight")
        self.gamma = weight.tensor.detach() if weight is not None and weight.tensor is not None else None

    def _gamma_of(self, rows, d):
        if self.gamma is None:
            return 1.0
        if not self.n_groups:
            return self.gamma.reshape(1, -1).float()
        of_groups = self.gamma.reshape(self.n_groups, -1).float()
        return of_groups.repeat_interleave(d // of_groups.shape[1], 1)[rows % self.n_groups]

    def observe(self, grad_inputs, grad_outputs):
        dy, dx, dgamma = grad_outputs[0], _gradient(grad_inputs, 0), _gradient(grad_inputs, 1)
        if dy is None:
            return []
        dy, found = dy.detach().reshape(self.n_rows, -1), []
        d = dy.shape[1]
        rows = rows_of(self.n_rows, max(1, min(_MOST_ROWS, _ROW_ELEMENTS // d)))
        g = dy[rows].float()
        if dgamma is not None:
            squares = g.double().square().sum(1)
            scale = squares.sum() if self.of_row else (squares * self.inverse[rows].double().square()).sum()
            found.append(Observation(self.key, "scale", float(scale) / 3 * (self.n_rows / len(rows)), dgamma))
        if dx is not None:
            g = g * self._gamma_of(rows, d)
            passed = gains.normalised_rows(g, dx.detach().reshape(self.n_rows, -1)[rows].float(), self.inverse[rows], self.of_row)
            found.append(Observation(self.key, "passed", passed))
        return found


# ---- elementwise, softmax, attention ----


class _Elementwise:
    samples = ()

    def __init__(self, used, facts):
        self.key, self.role, self.eb, self.of_odds = used.key, used.role, facts[used.key].eb, facts[used.key].form == "log_odds"
        self.x = taken(used.tensor, _ELEMENTS)

    def observe(self, grad_inputs, grad_outputs):
        if grad_outputs[0] is None:
            return []
        gain = gains.elementwise(self.role, self.x, taken(grad_outputs[0], _ELEMENTS), self.eb, self.of_odds)
        return [Observation(self.key, "passed", gain)]


class _Softmax:
    samples = ()

    def __init__(self, node, used, facts):
        dim = int(node._saved_dim)
        self.dim = dim - (1 << 64) if dim >= 1 << 63 else dim
        self.key, self.role = used.key, used.role
        self.y = self._rows(used.tensor)

    def _rows(self, tensor):
        last = tensor.detach().movedim(self.dim, -1)
        rows = rows_of(last.numel() // last.shape[-1], max(1, _ROW_ELEMENTS // last.shape[-1]))
        index, picked = [], rows
        for size in reversed(last.shape[:-1]):
            index.append(picked % size)
            picked = torch.div(picked, size, rounding_mode="floor")
        return last[tuple(reversed(index))].float().reshape(len(rows), -1)

    def _gain(self, dy):
        return (gains.softmax if self.role is Role.SOFTMAX else gains.log_softmax)(self.y, dy)

    def observe(self, grad_inputs, grad_outputs):
        if grad_outputs[0] is None:
            return []
        return [Observation(self.key, "passed", self._gain(self._rows(grad_outputs[0])))]


class _CrossEntropy:
    """The gradient of its log-softmax result is known from the targets."""

    samples = ()

    def __init__(self, node, used):
        x = used.tensor.detach()
        self.key = used.key
        self.rows = rows_of(x.shape[0], max(1, _ROW_ELEMENTS // x.shape[1]))
        self.y = torch.log_softmax(x[self.rows].float(), -1)
        self.target, self.reduction = node.target[self.rows], node.reduction
        self.ignore_index, self.total_weight = node.ignore_index, node.total_weight

    def observe(self, grad_inputs, grad_outputs):
        if grad_outputs[0] is None:
            return []
        gradient = grad_outputs[0].detach() if self.reduction else grad_outputs[0].detach()[self.rows]
        dy = gradient_of_rows(gradient, self.y, self.target, self.reduction, self.ignore_index, self.total_weight, slice(None))
        return [Observation(self.key, "passed", gains.log_softmax(self.y, dy))]


class _Attention:
    """Fused attention. Where a mask or a shape is beyond what attention_gains follows, nothing is known."""

    samples = ()
    FIELDS = ("query", "key", "value", "output")

    def __init__(self, node, fields, facts):
        self.keys = [fields[field].key if field in fields and fields[field].key in facts else None for field in self.FIELDS]
        q, k, v = (fields[field].tensor for field in self.FIELDS[:3])
        turn = next((facts[key].turn for key in self.keys if key), 0)
        mask = fields.get("attn_mask") or fields.get("attn_bias")
        self.sample = None
        if usable(q, k):
            self.sample = AttentionSample(q, k, v, turn, bool(node._saved_is_causal), node._saved_scale,
                                          mask.tensor if mask is not None else None)

    def observe(self, grad_inputs, grad_outputs):
        if grad_outputs[0] is None:
            return []
        found = self.sample.gains(grad_outputs[0]) if self.sample else ((None, None),) * 4
        return [Observation(key, "passed", whole, local=worst) for key, (whole, worst) in zip(self.keys, found) if key]


_BATCH_NORMS = frozenset({"NativeBatchNorm", "CudnnBatchNorm"})
_NORMS = frozenset({"NativeLayerNorm", "FusedRmsNorm", "NativeGroupNorm"})
_CONVOLUTIONS = frozenset({"Convolution", "ConvolutionOverrideable", "MkldnnConvolution"})


class _Multiple:
    """dx = c dy times what is stored, as for exp (c = 1) and squares (c = 2): a product whose other factor is x."""

    samples = ()
    KINDS = {"Exp": 1.0, "Pow": 2.0}

    def __init__(self, kind, used, facts):
        self.key, self.nonzero, self.squares = used.key, facts[used.key].nonzero, self.KINDS[kind] ** 2

    def observe(self, grad_inputs, grad_outputs):
        dy, dx = grad_outputs[0], _gradient(grad_inputs, 0)
        if dy is None or dx is None:
            return []
        return [Observation(self.key, "passed", gains.product(self.squares, self.nonzero, gains.energy(dy), gains.energy(dx)))]


def watch_of(node, kind, fields, facts):
    """A watch, or None where no rule for this kind of node is known. `fields`: {name: Saved}; `facts`: {key of a use: Facts}, of the
    uses that may have errors."""
    if kind in _CONVOLUTIONS:
        return _Convolution(node, fields, facts)
    if kind in roles.PRODUCTS:
        return _Product(node, kind, fields, facts)
    if kind in roles.ELEMENTWISE_PRODUCTS:
        return _ElementwiseProduct(node, fields, facts)
    if kind in _BATCH_NORMS:
        return _BatchNorm(node, kind, fields)
    if kind in _NORMS:
        return _RowNorm(node, kind, fields, facts)
    if kind.startswith("ScaledDotProduct"):
        return _Attention(node, fields, facts)
    used = next((f for f in fields.values() if f.key in facts), None)
    if used is None:
        return None
    if kind in _Multiple.KINDS:
        return _Multiple(kind, used, facts)
    if used.role in gains.ELEMENTWISE:
        return _Elementwise(used, facts)
    if used.role is Role.LOGITS:
        return _CrossEntropy(node, used)
    return _Softmax(node, used, facts) if used.role in (Role.SOFTMAX, Role.LOG_SOFTMAX) else None
