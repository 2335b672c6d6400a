"""Results of ReLU after batch norm: forward stores their signs, one bit an element, and backward computes their values again.

    y = relu(bn(x))        y = relu(bn(x) + bn(x'))        y = relu(bn(x) + y')

Batch norm has x stored anyway, for its own gradient. y' is an earlier result of ReLU, stored or computed again itself, through at most
_DEEPEST results. Zeros and signs of y are exact. Its errors are those of x, x' and y', in each channel times the factor of batch norm:
they serve the convolution that reads y, so the assessor counts it as one more use of each of them.
"""
import math

import torch
from torch.nn import Parameter

from .handles import Content, fills_its_memory
from .recompute import NEVER, Derived, note
from .roles import kind_of

_DEEPEST = 2
_ROUNDING = {torch.float32: 2.0**-14, torch.float16: 2.0**-7, torch.bfloat16: 2.0**-4}  # of the first computation, beside its bound


class Norm:
    """scale x + shift, channel by channel, of a content x."""

    depth = 1

    def __init__(self, content, scale, shift):
        self.content, self.scale, self.shift = content, scale, shift

    def error(self):
        """(mean square, largest) of the bounds of its channels."""
        return float(self.scale.square().mean()) * self.content.eb**2, float(self.scale.abs().max()) * self.content.eb

    def read(self, read):
        """Its values, in memory of their own."""
        x = self.content.decode()
        self.content.session.compute(self.scale, self.shift, None, x, None, x)
        return x


class Earlier:
    """A result of ReLU."""

    def __init__(self, content):
        self.content = content
        self.depth = 1 + (content.depth if isinstance(content, Rectified) else 0)

    def error(self):
        return self.content.nonzero * self.content.eb**2, self.content.largest if isinstance(self.content, Rectified) else self.content.eb

    def read(self, read):
        return read(self.content)


class Rectified(Derived):
    """max(0, scale x + shift + added), where `added` is a Norm, an Earlier or None."""

    __slots__ = ("norm", "added", "read", "depth", "largest")

    def __init__(self, session, tensor, norm, added, read):
        terms = [term for term in (norm, added) if term is not None]
        squares, largest = (sum(parts) for parts in zip(*(term.error() for term in terms)))
        super().__init__(session, tensor, [term.content for term in terms], math.sqrt(squares))
        self.norm, self.added, self.read = norm, added, read
        self.depth, self.largest = max(term.depth for term in terms), largest
        self.block, n_positive = session.pack_positive(tensor)
        self.coded_bytes = session.block_bytes(self.block)
        self.nonzero = n_positive / max(1, self.n_elements)
        self.support = True

    def decode(self):
        added = None if self.added is None else self.added.read(self.read)
        x = self.norm.content.decode()
        self.session.compute(self.norm.scale, self.norm.shift, self.block, x, added, x)
        return x

    def signs(self):
        """1 where it is positive: all that ReLU's gradient reads."""
        positive = torch.empty_strided(self.shape, self.stride, dtype=torch.uint8)
        self.session.decode(self.block, positive, self.n_elements)
        return positive.to(self.dtype)


def _parameter_at(node, index):
    """The parameter whose gradient goes along this edge; None where there is no edge."""
    edge = node.next_functions[index][0]
    return None if edge is None else getattr(edge, "variable", edge)


def _coefficients(node, tickets, n_channels):
    """(scale, shift) of a batch norm's node, or None where they are not known, as with a frozen shift."""
    weight, bias = (_parameter_at(node, index) for index in (1, 2))
    if any(p is not None and (type(p) is not Parameter or p.numel() != n_channels) for p in (weight, bias)):
        return None
    if (weight is None) != (bias is None) or (weight is None and tickets.get("weight") is not None):
        return None
    if node._saved_training:
        mean, inverse = tickets["result1"].raw, tickets["result2"].raw
    else:
        mean, inverse = tickets["running_mean"].raw, (tickets["running_var"].raw + node._saved_eps).rsqrt()
    scale = inverse.float() if weight is None else inverse.float() * weight.detach().float()
    shift = -mean.float() * scale
    return scale, (shift if bias is None else shift + bias.detach().float())


def _norm_of(structure, node, y):
    """The Norm that a node computes for y, or None."""
    if node is None or kind_of(node) != "NativeBatchNorm":
        return None
    tickets = structure.tickets(node)
    x = tickets.get("input")
    content = x.content if x is not None and x.view is None else None
    if type(content) is not Content or content.lossless or not _is_like(content, y):
        return None
    found = _coefficients(node, tickets, y.shape[1])
    return None if found is None else Norm(content, *found)


def _earlier_of(structure, node, y):
    if node is None or kind_of(node) != "Relu":
        return None
    ticket = structure.tickets(node).get("result")
    content = ticket.content if ticket is not None and ticket.view is None else None
    if not isinstance(content, Content) or not _is_like(content, y) or content.token._version != content.version:
        return None
    return Earlier(content)


def _is_like(content, y):
    return content.dtype == y.dtype and content.shape == y.shape and content.stride == y.stride()


def _terms(structure, node, y):
    """(norm, added) of what a ReLU got from a node; the first is None where the result cannot be computed again."""
    norm = _norm_of(structure, node, y)
    if norm is not None or node is None or kind_of(node) != "Add" or getattr(node, "_saved_alpha", None) != 1:
        return norm, None
    nodes = [edge for edge, _ in node.next_functions]
    norms = [_norm_of(structure, one, y) for one in nodes]
    if None not in norms:
        return norms
    norm = next(filter(None, norms), None)
    added = norm and _earlier_of(structure, nodes[norms.index(None)], y)
    return (norm, added) if added and added.depth <= _DEEPEST else (None, None)


def derive(hooks, node, y, site):
    """A content of y, the result that the ReLU `node` saved, which is computed from others; or None."""
    if site.derivable not in (None, y._version) or y.dtype not in _ROUNDING or y.dim() < 2 or not fills_its_memory(y):
        return None
    norm, added = _terms(hooks.structure, node.next_functions[0][0], y)
    if norm is None:
        return None
    content = Rectified(hooks.coder.session, y, norm, added, hooks.read_content)
    if hooks.checks(site):
        values = content.decode()
        hooks.recent = None
        note(site, y, _agrees(values, y, content.largest))
    return content if site.derivable != NEVER else None


def _agrees(values, y, largest):
    """Is each value within the bound of its error, which is `largest` at the most? NaN agrees with nothing."""
    distance = float((values - y).abs_().max())
    return distance <= 1.01 * largest + _ROUNDING[y.dtype] * float(y.max())
