"""From saved tensors to contents: what autograd's hooks call.

`pack` makes a ticket of every tensor that a node saves. `node_made`, called by structure.py once the node is known, gives each ticket
its role and codes the tensor. `unpack` gives the tensor back in backward.
"""
import functools

import torch

from . import recompute, rectified
from .bounds import lossless
from .coding import Coder
from .contents import Registry
from .devices import Devices
from .handles import Shape, Ticket, changed, storage_of
from .intervals import Interval, interval_of
from .policy import RAW
from .roles import LOSSY, NEEDS_SUPPORT, Role, role_of, stricter
from .sites import Saved, Sites
from .structure import NO_TASK, graph_task

is_grad_enabled, set_grad_enabled = torch.is_grad_enabled, torch._C._set_grad_enabled
_NOTHING = torch.empty(0)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WITHOUT_VALUES = (Shape, Interval)
_STRIDED = torch.strided
_BETWEEN_CHECKS = 64  # steps
_ALWAYS_RAW = frozenset({Role.WEIGHT, Role.SMALL})
_INTERVAL, _RELU, _SHAPE = Role.INTERVAL, Role.RELU, Role.SHAPE  # members of an Enum are slow to look up
_DERIVABLE = recompute.ROLES | {_RELU}
_OF_FORMS = frozenset({Role.LAYER_NORM, Role.LOG_SOFTMAX})  # these may read what another such node saved in a form


class Hooks:
    """The hooks of one context."""

    def __init__(self, session, policy, assessor, report, least_bytes):
        self.policy, self.assessor, self.report = policy, assessor, report
        self.least_bytes = least_bytes
        self.active = True  # false in a forked process
        self.coder = Coder(session, assessor)
        self.devices = Devices(session)
        self.registry = Registry()
        self.sites = Sites()
        self.pending = []
        self.recent = None  # the content decoded last, its tensor and the tensor's version, while other tickets wait for it
        self.generation = 0  # of the forward whose contents the registry has
        self.backward_seen = False
        self.step_by_backward = False
        self.probe = None  # a list: unpack is called to see tickets
        self.structure = None  # of structure.py, set where the context is opened
        self.observer = None  # called with (node, kind, fields) of every node

    # ---- forward ----

    def pack(self, tensor):
        ticket = Ticket(tensor)
        if type(tensor) not in _PLAIN or graph_task() != NO_TASK or not self.active:
            ticket.keep()
            return ticket
        if self.backward_seen:
            self._first_after_backward()
        if tensor.numel() * tensor.element_size() < self.least_bytes and self.observer is None:
            ticket.keep()
        else:
            self.pending.append(ticket)
        return ticket

    def _first_after_backward(self):
        self.backward_seen = False
        self.recent = None
        if self.step_by_backward:
            self.end_step()

    def end_step(self):
        self.recent = None
        self.devices.check()
        self.sites.restart()
        self.assessor.end_step()
        self.assessor.begin_step()

    def flush(self):
        """Tickets whose node was not found pass through."""
        pending, self.pending = self.pending, []
        for ticket in pending:
            ticket.keep()

    def node_made(self, node, kind, fields):
        """A node is complete; fields: pairs of a field's name and its ticket."""
        enabled = is_grad_enabled()
        set_grad_enabled(False)
        try:
            self._node_made(node, kind, fields)
        finally:
            set_grad_enabled(enabled)

    def _node_made(self, node, kind, fields):
        saved, kept = [], []
        for field, ticket in fields:
            tensor = ticket.raw
            role = ticket.role = role_of(node, kind, field, tensor)
            one = Saved(field, role, ticket)
            saved.append(one)
            storage = None
            if role not in _ALWAYS_RAW:
                one.session = self._session_of(tensor, role)
                storage = storage_of(tensor) if one.session else None
            if storage is None or self.policy.is_constant(tensor, storage._cdata):
                self._leave(one)
            else:
                kept.append((one, storage))
        coded = False
        for one, storage in kept:
            strictest = one.role if len(kept) == 1 else _strictest(kept, storage)
            coded |= self._place(node, kind, one, storage, saved, strictest)
        if coded:
            self.assessor.node_made(node, kind, saved)
        if self.observer is not None:
            self.observer(node, kind, saved)

    def _leave(self, saved):
        """Lets a tensor pass through."""
        self.report.passed(saved.role, saved.tensor)
        saved.ticket.keep()

    def _place(self, node, kind, saved, storage, fields, strictest):
        """Codes one saved tensor, or lets it pass through. True where it was coded with loss. `strictest`: of the roles in which this
        node reads the storage."""
        ticket, role = saved.ticket, saved.role
        if role is _SHAPE:
            ticket.raw, ticket.content = None, Shape(saved.tensor)
            return False
        if role is _INTERVAL and self._place_interval(node, kind, saved):
            return False
        if saved.role is not role and self._session_of(saved.tensor, saved.role) is None:  # it has to be kept itself
            self._leave(saved)
            return False
        content = self._content(node, kind, saved, storage, fields, strictest)
        if content is None:
            self._leave(saved)
            return False
        ticket.attach(content)
        return not content.lossless

    def _place_interval(self, node, kind, saved):
        """Keeps one bit an element."""
        saved.key = self.sites.name(kind, saved.field)
        site = self.sites.get(saved.key, saved.tensor)
        if self.policy.override(site) is RAW:
            return False
        content = interval_of(saved.session, node, kind, saved.tensor)
        if content is None:
            saved.role = saved.ticket.role = Role.EXACT
            return False
        site.learn(Role.INTERVAL)
        saved.ticket.raw, saved.ticket.content = None, content
        self.report.packed(site, content)
        return True

    def _session_of(self, tensor, role):
        """Who codes a tensor; None where it passes through."""
        element_bytes = tensor.element_size()
        if not self.least_bytes <= tensor.numel() * element_bytes or tensor.layout is not _STRIDED:
            return None
        if element_bytes > 8 or tensor.is_conj() or tensor.is_neg():
            return None
        session = self.devices.of(tensor)
        return session if session is self.devices.host or session is None or session.serves(role, tensor) else None

    def _content(self, node, kind, saved, storage, fields, strictest):
        """The content of a tensor: one that exists, or a new one. None where coding it saves nothing."""
        sites = self.sites
        key = saved.key = sites.name(kind, saved.field)
        override = self.policy.override_of(sites.stack[-1], key) if self.policy.patterns else None
        if sites.generation != self.generation:  # of another forward
            self.registry.clear()
            self.generation = sites.generation
        content = self.registry.find(storage._cdata, saved.tensor)
        if content is not None:
            return self._shared(node, kind, saved, storage, fields, content, override)
        site = saved.site = sites.by_key.get(key) or sites.get(key, saved.tensor)
        if strictest not in site.roles:
            site.learn(strictest)
        if saved.role not in site.roles:
            site.learn(saved.role)
        if override is None and saved.role in _DERIVABLE and not site.exact:
            derived = self._derived(node, saved, site)
            if derived is not None:
                self.registry.add(storage, derived)
                return derived
        return self._coded(node, kind, saved, storage, fields, self._bound(site, saved, site.exact, override))

    def _shared(self, node, kind, saved, storage, fields, content, override):
        """The content that an earlier use of the tensor has, where this use may read it, else one of its own."""
        site = saved.site = content.site
        if saved.role not in site.roles:
            site.learn(saved.role)
        serves = _serves(content, saved.role)
        if serves and _meets(content, override):
            if isinstance(content, recompute.Derived):
                saved.site = content.source.site
            return content
        return self._coded(node, kind, saved, storage, fields, self._bound(site, saved, site.exact or not serves, override))

    def _coded(self, node, kind, saved, storage, fields, bound):
        """A new content, or None."""
        site = saved.site
        if bound is RAW or site.incompressible:
            return None
        content, shared = self.coder.code(node, saved, storage, fields, kind, bound)
        if content is None:
            site.incompressible = True
            return None
        if shared:
            self.registry.add(storage, content)
        self.report.coded(site, content)
        if site.coding is not None:
            site.coding.add(content.coded_bytes, content.seconds)
        return content

    def _derived(self, node, saved, site):
        """A content that is computed again from others, where that is possible."""
        content = None
        if saved.role is _RELU:
            # A fixed bound is that of each tensor, not of what it is computed from.
            if self.assessor.adapts and saved.session is self.devices.host:
                content = rectified.derive(self, node, saved.tensor, site)
        elif not site.support:
            content = recompute.derive(self, saved.tensor, site)
        if content is not None:
            content.site, saved.site = site, content.source.site
            self.report.derived(site, content)
        return content

    def _bound(self, site, saved, exactly, override):
        """`exactly`: no error is tolerated here."""
        if override is None:
            return lossless() if exactly else self.assessor.bound(site, saved)
        if override is RAW or not exactly:
            return override
        return lossless(override.level)

    def checks(self, site):
        """Is what is computed again for this site compared with it this time? In its first step, and in some later ones."""
        return site.derivable is None or (self.assessor.step + site.index) % _BETWEEN_CHECKS == 0

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
        content = ticket.content
        if content.token._version != content.version:
            raise changed(content.shape, content.token._version, content.version)
        if type(content) in _WITHOUT_VALUES:
            return content.decode()
        content.n_open -= 1
        if ticket.role is _RELU and type(content) is rectified.Rectified and not self._is_recent(content):
            tensor = content.signs()
        else:
            tensor = self.read_content(content)
        if ticket.view is not None:
            tensor = tensor.as_strided(*ticket.view)
        if ticket.sample is not None:
            self.assessor.unpacked(ticket, tensor)
        return tensor

    def read(self, ticket):
        """The values of a ticket, to compute others from."""
        if ticket.raw is not None:
            if ticket.raw._version != ticket.version:
                raise changed(ticket.raw.shape, ticket.raw._version, ticket.version)
            return ticket.raw
        tensor = self.read_content(ticket.content)
        return tensor if ticket.view is None else tensor.as_strided(*ticket.view)

    def _is_recent(self, content):
        recent = self.recent
        return recent is not None and recent[0] is content and recent[1]._version == recent[2]

    def read_content(self, content):
        """Decoded values. Where other tickets wait for them they are kept until the next content is decoded."""
        if self.recent is not None and self._is_recent(content):
            dense = self.recent[1]
            if content.n_open <= 0:
                self.recent = None
            return dense
        self.recent = None
        dense = content.decode()
        figures = content.site.figures
        if figures is not None:
            figures.n_decoded += 1
            if content.coded_bytes == 0:
                self.report.measured(figures, content)
        if content.n_open > 0:
            self.recent = (content, dense, dense._version)
        return dense


def _strictest(kept, storage):
    """The strictest role in which a node reads this storage."""
    return functools.reduce(stricter, (one.role for one, its in kept if its._cdata == storage._cdata))


def _serves(content, role):
    """May a further use of this role read the content?"""
    if content.lossless:
        return True
    if content.pieces is not None and content.bound.form != "log_odds" and role not in _OF_FORMS:
        return False
    return role in LOSSY and (content.support or role not in NEEDS_SUPPORT)


def _meets(content, override):
    """Is the content as the override of a further use asks for?"""
    if override is None or content.lossless:
        return True
    if override is RAW or override.lossless or content.bound is None:
        return False
    return (content.bound.eb, content.bound.mode) == (override.eb, override.mode)
