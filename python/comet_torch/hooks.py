"""From saved tensors to contents: what autograd's hooks call.

`pack` makes a ticket of every tensor that a node saves. `node_made`, called by structure.py once the node is known, gives each ticket
its role and codes the tensor. `unpack` gives the tensor back in backward.
"""
import weakref

import torch

from .bounds import LOSSLESS, Saved
from .handles import Content, Shape, Ticket, changed, codable, layout_of, storage_of
from .policy import RAW
from .roles import LOSSY, NEEDS_SUPPORT, Role, role_of, stricter
from .sites import Sites
from .structure import in_backward

_FLOATS = frozenset({torch.float32, torch.float16, torch.bfloat16, torch.float64})
_NOTHING = torch.empty(0)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Registry:
    """Contents by the identity of the live storage that they were coded from. A weak reference to the storage keeps its identity from
    being used again, without keeping its memory."""

    def __init__(self):
        self.entries = {}

    def find(self, key, tensor):
        entry = self.entries.get(key)
        if entry is None:
            return None
        for reference in entry[1]:
            content = reference()
            if content is not None and _covers(content, tensor):
                return content
        return None

    def add(self, key, storage, content):
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = (torch.multiprocessing.reductions.StorageWeakRef(storage), [])
        entry[1].append(weakref.ref(content))
        content.registry, content.key = self, key

    def forget(self, content):
        entry = self.entries.get(content.key)
        if entry is not None:
            entry[1][:] = [reference for reference in entry[1] if reference() not in (None, content)]
            if not entry[1]:
                del self.entries[content.key]


def _covers(content, tensor):
    if content.version != tensor._version or content.dtype != tensor.dtype:
        return False
    first = tensor.storage_offset() - content.first
    last = first + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return first >= 0 and last < content.n_elements


class Hooks:
    """The hooks of one context."""

    def __init__(self, session, policy, assessor, report, least_bytes):
        self.session, self.policy, self.assessor, self.report = session, policy, assessor, report
        self.least_bytes = least_bytes
        self.registry = Registry()
        self.sites = Sites()
        self.pending = []
        self.recent = None
        self.backward_seen = False
        self.step_by_backward = False
        self.observer = None
        self.probe = None  # a list: unpack is called to see tickets

    # ---- forward ----

    def pack(self, tensor):
        if in_backward() or type(tensor) not in _PLAIN:
            return self._pass(Ticket(tensor))
        if self.backward_seen:
            self._first_after_backward()
        ticket = Ticket(tensor)
        self.pending.append(ticket)
        return ticket

    def _pass(self, ticket):
        ticket.keep()
        return ticket

    def _first_after_backward(self):
        self.backward_seen = False
        self.recent = None
        if self.step_by_backward:
            self.end_step()

    def end_step(self):
        self.sites.restart()
        self.assessor.end_step()
        self.assessor.begin_step()

    def flush(self):
        """Tickets whose node was not found pass through."""
        for ticket in self.pending:
            ticket.keep()
        self.pending = []

    def node_made(self, node, kind, fields):
        """A node is complete; fields: pairs of a field's name and its ticket."""
        with torch.no_grad():
            saved = [Saved(None, field, role_of(node, kind, field, ticket.raw), ticket, None, ticket.raw) for field, ticket in fields]
            roles = {}
            for s in saved:
                s.ticket.role = s.role
                key = storage_of(s.tensor)._cdata
                roles[key] = stricter(roles.get(key), s.role)
            coded = [s for s in saved if self._place(kind, s, roles)]
            if coded:
                self.assessor.node_made(node, kind, coded)
            if self.observer is not None:
                self.observer(node, kind, saved)

    def _place(self, kind, saved, roles):
        """Codes one saved tensor, or lets it pass through. True where it was coded with loss."""
        ticket, tensor, role = saved.ticket, saved.tensor, saved.role
        if role in (Role.WEIGHT, Role.SMALL) or tensor.numel() * tensor.element_size() < self.least_bytes \
                or tensor.device.type != "cpu" or self.policy.is_constant(tensor):
            self.report.passed(role, tensor)
            ticket.keep()
            return False
        storage = storage_of(tensor)
        content = self.registry.find(storage._cdata, tensor)
        if content is None and role is Role.SHAPE:
            ticket.raw, ticket.content = None, Shape(tensor)
            return False
        saved.key = self.sites.name(kind, saved.field)
        if content is None:
            saved.site = self.sites.get(saved.key, tensor)
            content = self._code(saved, roles.get(storage._cdata, role), storage)
        else:
            saved.site = content.site
            saved.site.learn(role)
            if not _serves(content, role):
                content = self._code(saved, Role.EXACT, storage)
        if content is None:
            self.report.passed(role, tensor)
            ticket.keep()
            return False
        ticket.attach(content)
        return not content.lossless and role is not Role.SHAPE

    def _code(self, saved, role, storage):
        """A new content of the tensor's storage, or None where coding it saves nothing."""
        site, tensor = saved.site, saved.tensor
        site.learn(role)
        if site.incompressible:
            return None
        dense, channels_last, first = layout_of(tensor)
        content = Content(self.session, dense, tensor, tensor.storage_offset() if first is None else first)
        content.site = site
        if tensor.dtype in _FLOATS:
            block = self._code_floats(content, saved, dense, channels_last)
        else:
            block = self._code_integers(dense)
        if block is None:
            site.incompressible = True
            return None
        content.block = block
        content.coded_bytes = self.session.block_bytes(block)
        if first is not None:
            self.registry.add(storage._cdata, storage, content)
        self.report.coded(site, content)
        return content

    def _code_floats(self, content, saved, dense, channels_last):
        site = saved.site
        bound = self._bound(site, saved)
        if bound is RAW:
            return None
        if bound.eb == 0 and not saved.tensor.requires_grad:
            block = self.session.pack_two(dense)
            if block is not None:
                return block
        if site.support and bound.eb > 0 and not bound.keep_support:
            bound = bound._replace(keep_support=True)
        block, job = self.session.encode(dense, channels_last, bound)
        content.bound, content.eb, content.lossless, content.support = bound, job.eb, job.eb == 0, job.eb == 0 or bound.keep_support
        content.nonzero = job.n_nonzero / max(content.n_elements, 1)
        if bound.eb == 0 and site.role is Role.EXACT and job.bytes_coded > 0.9 * job.bytes_raw:
            self.session.free(block)
            return None
        return block

    def _bound(self, site, saved):
        bound = self.policy.override(site)
        if site.exact and bound is not RAW:
            return LOSSLESS if bound is None else LOSSLESS._replace(level=bound.level)
        return self.assessor.bound(site, saved) if bound is None else bound

    def _code_integers(self, dense):
        if dense.dtype in (torch.bool, torch.uint8):
            block = self.session.pack_two(dense)
            if block is not None:
                return block
        return None if dense.dtype is torch.bool else self.session.pack_integers(dense)

    # ---- backward ----

    def unpack(self, ticket):
        if self.probe is not None:
            self.probe.append(ticket)
            return _NOTHING
        self.backward_seen = True
        raw = ticket.raw
        if raw is not None:
            if raw._version != ticket.version:
                raise changed(raw.shape, raw._version, ticket.version)
            return raw
        return self._restore(ticket)

    def _restore(self, ticket):
        content = ticket.content
        if type(content) is Shape:
            return torch.empty_strided(content.shape, content.stride, dtype=content.dtype, device=content.device)
        if content.token._version != content.version:
            raise changed(content.shape, content.token._version, content.version)
        dense = self._decoded(content)
        view = ticket.view
        return dense if view is None else dense.as_strided(*view)

    def _decoded(self, content):
        """The dense values. Where other tickets still wait for them they are kept until the next content is decoded."""
        content.n_open -= 1
        recent = self.recent
        if recent is not None and recent[0] is content:
            dense = recent[1]
            if content.n_open <= 0:
                self.recent = None
            return dense
        self.recent = recent = None
        dense = content.decode()
        self.report.decoded(content)
        if content.n_open > 0:
            self.recent = (content, dense)
        return dense


def _serves(content, role):
    """May a further consumer of this role read the content?"""
    if content.lossless or role is Role.SHAPE:
        return True
    return role in LOSSY and (content.support or role not in NEEDS_SUPPORT)
