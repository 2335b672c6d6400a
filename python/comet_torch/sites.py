"""Names of the places that save tensors, from the modules that run.

A use is named after the module that was running, the kind of the node, its field, and the how-manieth of these it was since the
forward began: "layer1.0.bn1:NativeBatchNorm.input#0". So a place has the same name in every step, and its bound can be its own.
"""
from .bounds import Site
from .roles import LOSSY, NEEDS_SUPPORT, stricter


class Place(Site):
    """A site, and what the hooks note about it."""

    __slots__ = ("support", "incompressible", "override", "figures")

    def __init__(self, key, module, index, n_elements):
        super().__init__(key, module, None, index, n_elements)
        self.support = self.incompressible = False
        self.override = self.figures = None

    def learn(self, role):
        """A node reads the tensor in this role."""
        if role in self.roles:
            return
        self.roles.add(role)
        self.role = stricter(self.role, role)
        if role not in LOSSY:
            self.exact = True
        if role in NEEDS_SUPPORT:
            self.support = True


class Sites:
    """All sites of a context, and the stack of modules that run."""

    def __init__(self):
        self.by_key = {}
        self.all = []
        self.keys = {}
        self.counts = {}
        self.stack = [""]

    def name(self, kind, field):
        """The name of the next use of this kind in the module that runs."""
        place = (self.stack[-1], kind, field)
        number = self.counts.get(place, 0)
        self.counts[place] = number + 1
        names = self.keys.get(place)
        if names is None:
            names = self.keys[place] = []
        if number == len(names):
            names.append(f"{place[0]}:{kind}.{field}#{number}")
        return names[number]

    def get(self, key, tensor):
        site = self.by_key.get(key)
        if site is None:
            site = self.by_key[key] = Place(key, self.stack[-1], len(self.all), tensor.numel())
            self.all.append(site)
        return site

    def restart(self):
        """A forward begins."""
        self.counts.clear()

    def enter(self, module):
        self.stack.append(module)

    def leave(self, module):
        while len(self.stack) > 1 and self.stack.pop() != module:
            pass
