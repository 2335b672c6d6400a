"""Elementwise results that backward computes again, from what is coded anyway, instead of storing them.

The input of a linear layer or convolution is often the result of a GELU or SiLU, of a layer norm, or of a product such as SwiGLU's,
whose own inputs are saved by their nodes. Such a tensor takes no memory. Its error is that of the inputs, carried through the
function; the assessor counts it as one more use of the first of them.

A tensor is computed again only if the first computation at its site agrees with it, as one in 64 steps has to later, and if it was not
changed in place. A function that works in place changes it once: then it has to have the same version each time, and what is computed
is checked strictly.
"""
import torch
from torch.nn import functional as F

from .handles import Content, Outline, fills_its_memory
from .notices import say_once
from .roles import Role, kind_of

NEVER = -1
ROLES = frozenset({Role.LINEAR_INPUT, Role.CONV_INPUT, Role.FACTOR})
_VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
_DEEPEST = 4
_LARGEST_ERROR = 0.3  # of the first computation, as a share of the tensor's root mean square
_STEEPEST = 1.6  # no elementwise function here has a larger slope


class Value:
    """A tensor that a node saved."""

    def __init__(self, ticket):
        self.ticket = ticket

    def tickets(self):
        return [self.ticket]

    def compute(self, read):
        return read(self.ticket)


class Call:
    """A function of values and calls."""

    def __init__(self, function, *operands):
        self.function, self.operands = function, operands

    def tickets(self):
        return [ticket for operand in self.operands for ticket in operand.tickets()]

    def compute(self, read):
        return self.function(*[operand.compute(read) for operand in self.operands])


def _usable(ticket):
    return ticket is not None and (ticket.raw is not None or isinstance(ticket.content, Content))


def _gelu(node):
    approximate = getattr(node, "_saved_approximate", "none")
    return lambda x: F.gelu(x, approximate=approximate)


_ELEMENTWISE = {"Gelu": _gelu, "Silu": lambda node: F.silu, "Hardswish": lambda node: F.hardswish}


def _layer_norm(tickets):
    operands = [tickets.get(field) for field in ("input", "result1", "result2", "weight", "bias")]
    if not all(_usable(ticket) for ticket in operands[:3]) or not all(_usable(ticket) or ticket is None for ticket in operands[3:]):
        return None
    weight, bias = operands[3:]

    def function(x, mean, rstd, *affine):
        y = (x - mean).mul_(rstd)
        y = y.mul_(affine[0]) if weight is not None else y
        return y.add_(affine[-1]) if bias is not None else y

    return Call(function, *[Value(ticket) for ticket in operands if ticket is not None])


def _product(structure, node, tickets, depth):
    edges, operands = node.next_functions, []
    for index, field in enumerate(("self", "other")):
        ticket = tickets.get(field)
        if ticket is not None:
            operands.append(Value(ticket) if _usable(ticket) else None)
        else:
            operands.append(expression(structure, edges[index][0], depth + 1) if index < len(edges) else None)
    return None if None in operands else Call(torch.mul, *operands)


def expression(structure, node, depth=0):
    """How the result of a node follows from what nodes saved, or None."""
    if node is None or depth > _DEEPEST:
        return None
    kind = kind_of(node)
    if kind in _VIEWS:
        return expression(structure, node.next_functions[0][0], depth + 1)
    if kind in _ELEMENTWISE:
        ticket = structure.tickets(node).get("self")
        return Call(_ELEMENTWISE[kind](node), Value(ticket)) if _usable(ticket) else None
    if kind == "NativeLayerNorm":
        return _layer_norm(structure.tickets(node))
    if kind == "Mul":
        return _product(structure, node, structure.tickets(node), depth)
    return None


class Derived(Content):
    """A content whose values are not stored: they follow from `contents`. `eb` is that of an error in the values which does the same
    harm as theirs."""

    __slots__ = ("source", "sources")

    def __init__(self, session, tensor, contents, eb=None):
        super().__init__(session, Outline(tensor), tensor, tensor.storage_offset())
        stored = (one for content in contents for one in (content.sources if isinstance(content, Derived) else (content,)))
        self.sources = tuple(dict.fromkeys(content for content in stored if not content.lossless))  # what has errors of its own
        self.source = self.sources[0]
        self.eb, self.bound, self.nonzero = self.source.eb if eb is None else eb, self.source.bound, self.source.nonzero
        self.lossless = self.support = False


class Elementwise(Derived):
    """The result of elementwise functions."""

    __slots__ = ("formula", "read", "contents", "waits")

    def __init__(self, session, tensor, formula, read):
        self.contents = [ticket.content for ticket in formula.tickets() if ticket.content is not None]
        super().__init__(session, tensor, self.contents)
        self.formula, self.read, self.waits = formula, read, True
        for content in self.contents:
            content.n_open += 1

    def decode(self):
        if self.waits:
            self.waits = False
            for content in self.contents:
                content.n_open -= 1
        return self.values()

    def values(self):
        values = self.formula.compute(self.read)
        if values.shape != self.shape:
            values = values.reshape(self.shape)
        if values.stride() != self.stride:
            values = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=values.device).copy_(values)
        return values


def derive(hooks, tensor, site):
    """A content of the tensor that is computed from others, or None."""
    version = tensor._version
    if tensor.grad_fn is None or site.derivable not in (None, version) or not fills_its_memory(tensor):
        return None
    if version != 0 and kind_of(tensor.grad_fn) not in _ELEMENTWISE:
        return None
    formula = expression(hooks.structure, tensor.grad_fn)
    if formula is None or not _has_error(formula):
        return None
    content = Elementwise(hooks.coder.session, tensor, formula, hooks.read)
    if hooks.checks(site):
        values = content.values()
        hooks.recent = None  # which keeps what was decoded
        note(site, tensor, _agrees(values, tensor, content.eb if version != 0 else None))
    return content if site.derivable != NEVER else None


def note(site, tensor, agrees):
    """What a comparison with the tensor found. In a later step, values that are not finite say nothing."""
    if not agrees and site.derivable is not None:
        if not bool(torch.isfinite(tensor).all()):
            return
        say_once(f"derived {site.key}", f"{site.key} does not follow from stored tensors any more, as in earlier steps: it is stored itself "
                 "from now on. Where its values were changed through .data, gradients of up to 64 steps before were wrong.")
    site.derivable = tensor._version if agrees else NEVER


def _has_error(formula):
    """Without an error anywhere, lossless coding is asked for: then the tensor itself is coded, to have the same bits."""
    return any(ticket.content is not None and not ticket.content.lossless for ticket in formula.tickets())


def _agrees(values, tensor, eb):
    """With eb, the bound of the input, element by element."""
    if values.shape != tensor.shape or values.dtype != tensor.dtype:
        return False
    distance = values.float() - tensor.float()
    if eb is not None:
        return bool(distance.abs().max() <= _STEEPEST * eb + 2.0**-7 * tensor.float().abs().max() * (tensor.dtype != torch.float32))
    return bool(torch.linalg.vector_norm(distance) <= _LARGEST_ERROR * torch.linalg.vector_norm(tensor.float()))
