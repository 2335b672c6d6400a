"""Who saved a tensor, and as what: from autograd nodes to fields and tickets.

Torch 2.15 calls a hook with each node right after it has saved its tensors, and what pack returned is at node._raw_saved_<field>.data:
`NodeHook`. On older torch `CallWatch` looks, after each call of a torch function, at the nodes that are new in the graph of its result.
Reading node._saved_<field> calls unpack with the ticket, which tells whose it is.
"""
import contextlib

import torch
from torch.autograd import Variable
from torch.overrides import TorchFunctionMode

from .handles import Ticket
from .notices import say_compiled
from .roles import kind_of

_RAW_PREFIX, _PREFIX = "_raw_saved_", "_saved_"
_SEVERAL = (tuple, list)
_NO_TENSOR = (int, float, str, torch.dtype)
_MARK = "comet_torch"
NO_TASK = -1  # what graph_task() returns outside of backward passes
# Calls of torch functions, with results in the graph, after which a ticket whose node was not found passes through.
_PATIENCE = 16


def structure_of(hooks):
    """What this torch has to tell hooks.node_made of new nodes: a context manager, which hooks ask for tickets of nodes, too."""
    hooks.structure = NodeHook(hooks) if hasattr(torch.autograd.graph, "node_creation_hook") else CallWatch(hooks)
    return hooks.structure


class NodeHook:
    """Called with every new node."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.known = {}
        self.context = torch.autograd.graph.node_creation_hook(self)

    def __enter__(self):
        self.context.__enter__()

    def __exit__(self, *error):
        self.context.__exit__(*error)

    def __call__(self, node):
        pending = self.hooks.pending
        if not pending:
            return
        self.hooks.pending = []
        kind, attributes = self.known.get(node.name()) or self._learn(node)
        fields = [found for found in _raw_tickets(node, attributes) if found[1].role is None]
        try:
            if fields:
                self.hooks.node_made(node, kind, fields)
        finally:
            for ticket in pending:
                if ticket.content is None:
                    ticket.keep()

    def _learn(self, node):
        """The kind of a node, and the attributes that have what it saved."""
        kind = kind_of(node)
        if kind.startswith("CompiledFunction"):
            say_compiled()
        found = self.known[node.name()] = (kind, [(a, a[len(_RAW_PREFIX):]) for a in dir(node) if a.startswith(_RAW_PREFIX)])
        return found

    def tickets(self, node):
        """{field: ticket} of a node made before."""
        return dict(_raw_tickets(node, (self.known.get(node.name()) or self._learn(node))[1]))


def _raw_tickets(node, attributes):
    """Pairs of field and ticket."""
    found = []
    for attribute, field in attributes:
        saved = getattr(node, attribute)
        for one in saved if type(saved) in _SEVERAL else (saved,):
            ticket = one.data
            if type(ticket) is Ticket:
                found.append((field, ticket))
    return found


class CallWatch(TorchFunctionMode):
    """Called with every torch function that a program calls."""

    def __init__(self, hooks):
        super().__init__()
        self.hooks = hooks
        self.known = {}
        self.age = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if self.hooks.pending:
            self._look(result)
        return result

    def _look(self, result):
        hooks, found = self.hooks, set()
        nodes = [tensor.grad_fn for tensor in _tensors_in(result) if tensor.grad_fn is not None]
        if not nodes:
            return
        self._walk(nodes, found)
        hooks.pending = [ticket for ticket in hooks.pending if id(ticket) not in found]
        self.age = self.age + 1 if hooks.pending else 0
        if self.age > _PATIENCE:
            hooks.flush()

    def _walk(self, nodes, found):
        """Visits nodes not visited before, latest first, until all pending tickets are found."""
        n_wanted = len(self.hooks.pending)
        made = []
        while nodes and len(found) < n_wanted:
            node = nodes.pop(0)
            metadata = node.metadata
            if _MARK in metadata:
                continue
            metadata[_MARK] = True
            fields = [(field, ticket) for field, ticket in self._fields(node) if ticket.role is None and ticket.raw is not None]
            found.update(id(ticket) for _, ticket in fields)
            if fields:
                made.append((node, fields))
            nodes += [edge for edge, _ in node.next_functions if edge is not None]
        for node, fields in reversed(made):  # the earliest first
            self.hooks.node_made(node, kind_of(node), fields)

    def tickets(self, node):
        """{field: ticket} of a node made before."""
        return dict(self._fields(node))

    def _fields(self, node):
        """Pairs of field and ticket."""
        name = node.name()
        attributes = self.known.get(name)
        if attributes is None:
            attributes = [a for a in dir(node) if a.startswith(_PREFIX)] or ["saved_tensors"] * ("saved_tensors" in dir(node))
            self.known[name] = attributes
        fields = []
        for attribute in list(attributes):
            tickets = self.hooks.probe = []
            try:
                value = getattr(node, attribute)
            except RuntimeError:  # released already
                value = None
            finally:
                self.hooks.probe = None
            if isinstance(value, _NO_TENSOR):
                attributes.remove(attribute)
            field = attribute[len(_PREFIX):] if attribute.startswith(_PREFIX) else attribute
            fields += [(field, ticket) for ticket in tickets]
        return fields


def _tensors_in(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [tensor for one in result for tensor in _tensors_in(one)]
    if isinstance(result, dict):
        return _tensors_in(list(result.values()))
    return []


class _Engine:
    """Stands in for torch's engine and notes that a backward pass runs."""

    depth = 0

    def __init__(self, engine):
        self.engine = engine

    def run_backward(self, *args, **options):
        _Engine.depth += 1
        try:
            return self.engine.run_backward(*args, **options)
        finally:
            _Engine.depth -= 1

    def __getattr__(self, name):
        return getattr(self.engine, name)


@contextlib.contextmanager
def watch_backward():
    """Within it in_backward() is right, on any torch."""
    if hasattr(torch._C, "_current_graph_task_id"):
        yield
        return
    before = Variable._execution_engine
    Variable._execution_engine = _Engine(before)
    try:
        yield
    finally:
        Variable._execution_engine = before


if hasattr(torch._C, "_current_graph_task_id"):
    graph_task = torch._C._current_graph_task_id
else:

    def graph_task():
        return NO_TASK + _Engine.depth


def in_backward():
    """Does a backward pass run? On torch that can tell: in this thread."""
    return graph_task() != NO_TASK
