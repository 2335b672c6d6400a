"""Sites: places of the program that save one tensor in memory in each forward.

A site is named after the module that was running, the node that saved the tensor first, its field, and the how-manieth of these it was
since the forward began: "layer1.0.bn1:NativeBatchNorm.input#0". It keeps its name from step to step, so that bounds can be its own.
"""
from .roles import LOSSY, NEEDS_SUPPORT, stricter


class Site:
    __slots__ = ("name", "module", "kind", "field", "number", "index", "n_elements", "role", "exact", "support", "incompressible",
                 "override", "figures")

    def __init__(self, module, kind, field, number, index, n_elements):
        self.module, self.kind, self.field, self.number, self.index = module, kind, field, number, index
        self.name = None
        self.n_elements = n_elements
        self.role = None  # the strictest of its consumers
        self.exact = self.support = self.incompressible = False
        self.override = self.figures = None

    @property
    def key(self):
        if self.name is None:
            self.name = f"{self.module}:{self.kind}.{self.field}#{self.number}"
        return self.name

    def learn(self, role):
        """A consumer of this role reads the tensor."""
        self.role = stricter(self.role, role)
        if role not in LOSSY:
            self.exact = True
        if role in NEEDS_SUPPORT:
            self.support = True


class Sites:
    """All sites of a context, and the module that runs."""

    def __init__(self):
        self.by_place = {}
        self.all = []
        self.counts = {}
        self.stack = [""]

    def next(self, kind, field, tensor):
        """The site of a tensor that is saved now."""
        place = (self.stack[-1], kind, field)
        number = self.counts.get(place, 0)
        self.counts[place] = number + 1
        key = place + (number,)
        site = self.by_place.get(key)
        if site is None:
            site = self.by_place[key] = Site(*place, number, len(self.all), tensor.numel())
            self.all.append(site)
        return site

    def restart(self):
        self.counts.clear()

    def enter(self, module):
        self.stack.append(module)

    def leave(self, module):
        while len(self.stack) > 1 and self.stack.pop() != module:
            pass
