"""Names of the places that save tensors, from the modules that run.

A use is named after the module that was running, the kind of the node, its field, and the how-manieth of these it was since the
forward began: "layer1.0.bn1:NativeBatchNorm.input#0". So a place has the same name in every step, and its bound can be its own.
"""
from .roles import DITHERED, LOSSY, NEEDS_SUPPORT, Role, stricter


class Site:
    """A place of the program that saves one tensor in each forward. Several nodes may read that tensor: q, k and v of one storage, or
    the result of a ReLU, which is the input of the next convolution. The site has the name of its first use."""

    __slots__ = ("key", "module", "role", "roles", "index", "n_elements", "exact", "support", "incompressible",
                 "dithered", "derivable", "figures", "coding", "prepared")

    def __init__(self, key, module, index, n_elements):
        self.key, self.module, self.index, self.n_elements = key, module, index, n_elements
        self.role, self.roles = None, set()  # the strictest, and all uses so far
        self.exact = False  # a use of unknown role was found: stored without loss from then on
        self.support = False  # a use needs exact zeros and signs
        self.dithered = False  # a use has dither
        self.incompressible = False  # coding saved nothing: the tensor passes through from then on
        self.derivable = None  # the version of its tensor that is computed again; None: not tried yet, NEVER: it cannot be
        self.figures = None
        self.coding = None  # of levels.py: what a level costs here, in steps that find out
        self.prepared = None  # of session.py: how its tensors were described to the native library the last time

    def learn(self, role):
        """A node reads the tensor in this role."""
        self.roles.add(role)
        self.role = stricter(self.role, role)
        if role not in LOSSY:
            self.exact = True
        if role in NEEDS_SUPPORT:
            self.support = True
        if role in DITHERED:
            self.dithered = True


class Saved:
    """One saved field of one node. `tensor` is raw, and alive during the call only; `key` is the name of this use."""

    __slots__ = ("key", "field", "role", "ticket", "site", "tensor", "session")

    def __init__(self, field, role, ticket):
        self.field, self.role, self.ticket, self.tensor = field, role, ticket, ticket.raw
        self.key = self.site = self.session = None  # session: which codes it


class Spot:
    """A kind and field in one module: the names of its uses, and how many there were in this forward."""

    __slots__ = ("names", "number", "generation")

    def __init__(self):
        self.names, self.number, self.generation = [], 0, -1


class Sites:
    """All sites of a context, and the stack of modules that run."""

    def __init__(self):
        self.by_key = {}
        self.all = []
        self.spots = {}
        self.stack = [""]
        self.generation = 0  # of forwards

    def name(self, kind, field):
        """The name of the next use of this kind in the module that runs."""
        place = (self.stack[-1], kind, field)
        spot = self.spots.get(place)
        if spot is None:
            spot = self.spots[place] = Spot()
        if spot.generation != self.generation:
            spot.generation, spot.number = self.generation, 0
        number = spot.number
        spot.number = number + 1
        if number == len(spot.names):
            spot.names.append(f"{place[0]}:{kind}.{field}#{number}")
        return spot.names[number]

    def get(self, key, tensor):
        site = self.by_key.get(key)
        if site is None:
            site = self.by_key[key] = Site(key, self.stack[-1], len(self.all), tensor.numel())
            self.all.append(site)
        return site

    def begin(self):
        """The forward of the whole model begins; an earlier one may have ended half way."""
        del self.stack[1:]
        self.restart()

    def restart(self):
        """A forward begins."""
        self.generation += 1

    def enter(self, module):
        self.stack.append(module)

    def leave(self, module):
        while module in self.stack[1:] and self.stack.pop() != module:
            pass

    # ---- state, so that a resumed run codes as the one that was interrupted ----

    def state(self):
        return [(s.key, s.module, s.n_elements, sorted(role.value for role in s.roles), s.incompressible, s.derivable) for s in self.all]

    def load(self, state):
        self.by_key, self.all = {}, []
        for key, module, n_elements, roles, incompressible, derivable in state:
            site = self.by_key[key] = Site(key, module, len(self.all), n_elements)
            self.all.append(site)
            for value in roles:
                site.learn(Role(value))
            site.incompressible, site.derivable = incompressible, derivable
