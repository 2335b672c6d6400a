"""The contract between the hooks, which code saved tensors, and those who say how: bounds that are fixed, or adaptive (assess.py).

The hooks describe a tensor as a `Site` and each of its uses as a `Saved`, and ask for a `Bound`. Any object with the methods of
`FixedBounds` can answer.
"""
import math
from typing import NamedTuple, Optional

from .roles import NEEDS_SUPPORT


class Site:
    """A place of the program that saves one tensor in each forward. Several nodes may save that tensor: q, k and v of one storage, or
    the result of a ReLU, which is the input of the next convolution. The site has the name of its first use."""

    __slots__ = ("key", "module", "role", "index", "n_elements", "exact", "roles")

    def __init__(self, key, module="", role=None, index=0, n_elements=0):
        self.key = key  # "module.path:Kind.field#n": the n-th such field while the module was called
        self.module = module
        self.role = role  # of its first use
        self.index = index
        self.n_elements = n_elements
        self.exact = False  # a use of unknown role was found: stored lossless from then on
        self.roles = {role} if role else set()  # of all uses so far


class Saved:
    """One saved field of one node."""

    __slots__ = ("key", "field", "role", "ticket", "site", "tensor")

    def __init__(self, key, field, role, ticket, site, tensor):
        self.key = key  # of this use; that of the site where it is the first
        self.field = field
        self.role = role
        self.ticket = ticket
        self.site = site
        self.tensor = tensor  # raw; alive only during the call


class Bound(NamedTuple):
    """How a tensor is to be coded. `relative` says what `eb` is a bound of:

    None           the tensor's values
    "std"          the tensor's values, in units of their standard deviation
    "row"          (x - mean) * rstd of each row of a layer norm, with the mean and rstd that the node saves
    "probability"  exp(x) of a log-softmax result
    """

    eb: float  # 0: lossless; inf: only zeros and signs matter
    relative: Optional[str] = None
    keep_support: bool = False
    dither: bool = False
    level: str = "fast"


LOSSLESS = Bound(0.0)


class FixedBounds:
    """One bound for all tensors: `eb` in the units of the tensor, or in those of its deviation."""

    def __init__(self, eb, of_deviation=False, level="fast"):
        if not (math.isfinite(eb) and eb >= 0):
            raise ValueError(f"a bound of {eb}: it must be finite and not below 0; 0 is lossless, and 0.1 of the deviation is a usual bound")
        self.eb = eb
        self.relative = "std" if of_deviation else None
        self.level = level

    def bound(self, site, saved):
        """How the tensor of `site` is to be coded, asked before `saved.tensor` is. With `saved.site.exact` it is not asked."""
        if self.eb == 0:
            return LOSSLESS._replace(level=self.level)
        return Bound(self.eb, self.relative, keep_support=bool(NEEDS_SUPPORT & site.roles), level=self.level)

    def node_made(self, node, kind, fields):
        """A node of the graph exists, and its tensors are coded. `fields` are its saved fields, `tensor` of each still raw."""

    def unpacked(self, content, tensor):
        """Backward reads `tensor`, decoded from `content`, whose `sample` is not None."""

    def begin_step(self):
        """The first forward of an optimiser step begins."""

    def loss_known(self, loss):
        """The loss of this step, a float, before its backward; where it is known at all."""

    def found_nonfinite(self, site):
        """A tensor of `site` had values that are not finite."""

    def end_step(self):
        """The optimiser has made its step."""

    def report(self, site):
        return {"eb": self.eb, "relative": self.relative}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        if state:
            raise ValueError("this state is of adaptive bounds; the bounds of this run are fixed")
