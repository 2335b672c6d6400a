"""Who saved a tensor, and as what: from autograd nodes to fields and tickets.

Torch 2.15 calls a hook with each node right after it has saved its tensors (`node_creation_hook`); what pack returned is then at
node._raw_saved_<field>.data.
"""
import torch

from .handles import Ticket
from .roles import kind_of

_PREFIX = "_raw_saved_"


def has_node_hook():
    return hasattr(torch.autograd.graph, "node_creation_hook")


class NodeHook:
    """Called with every new node."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.known = {}

    def context(self):
        return torch.autograd.graph.node_creation_hook(self)

    def __call__(self, node):
        hooks = self.hooks
        pending = hooks.pending
        if not pending:
            return
        hooks.pending = []
        name = node.name()
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = (kind_of(node), [(a, a[len(_PREFIX):]) for a in dir(node) if a.startswith(_PREFIX)])
        kind, attributes = found
        fields = []
        for attribute, field in attributes:
            saved = getattr(node, attribute)
            for one in saved if isinstance(saved, (tuple, list)) else (saved,):
                ticket = one.data
                if type(ticket) is Ticket and ticket.role is None and ticket.raw is not None:
                    fields.append((field, ticket))
        if fields:
            hooks.node_made(node, kind, fields)
        for ticket in pending:
            if ticket.role is None:
                ticket.keep()
