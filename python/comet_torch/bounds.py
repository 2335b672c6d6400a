"""Bounds: what one is, how a user writes one, and the assessor of runs whose bounds are fixed."""
import math
import numbers
import re

import torch

from comet_codec._library import ABSOLUTE, AUTO, DENSE, FAST, LOSSLESS, RANGE, STDDEV

LEVELS = {"fast": FAST, "dense": DENSE, "auto": AUTO}
_MODES = {"": ABSOLUTE, "std": STDDEV, "range": RANGE}
_FORMS = {"row": " of normalised rows", "log_probability": " of log-probabilities", "log_odds": " of log-odds"}
RELATIVE = (STDDEV, RANGE)
_WIDEST = {STDDEV: 1.0, RANGE: 0.25}


class Bound:
    """How to code one tensor. `mode` is a bound mode of the codec: absolute, relative to the deviation or the range, or lossless.
    With a `form` (forms.py) other values are coded in place of the tensor's own, and the bound is of these."""

    __slots__ = ("eb", "mode", "level", "keep_support", "form")

    def __init__(self, eb, mode=ABSOLUTE, level=FAST, keep_support=False, form=None):
        self.eb, self.mode, self.level = eb, mode, level
        self.keep_support, self.form = keep_support, form

    @property
    def lossless(self):
        return self.mode == LOSSLESS or self.eb == 0

    def __repr__(self):
        return f"Bound({describe(self)})"


def lossless(level=FAST):
    return Bound(0.0, LOSSLESS, level)


def made_absolute(bound, tensors):
    """A bound in units of the values: one that is relative, to the tensor with the least deviation or range."""
    if bound.lossless or bound.mode not in RELATIVE:
        return bound
    tensors = [t.double() if t.dtype == torch.float64 else t.float() for t in tensors]
    units = [float(t.std(unbiased=False) if bound.mode == STDDEV else t.max() - t.min()) for t in tensors]
    if not all(0 < unit < float("inf") for unit in units):
        return lossless(bound.level)
    return Bound(bound.eb * min(units), ABSOLUTE, bound.level, bound.keep_support, bound.form)


def describe(bound):
    """A bound as the user would write it."""
    if bound is None:
        return "-"
    if bound.lossless:
        return "lossless"
    return f"{bound.eb:.3g}" + {STDDEV: "std", RANGE: "range"}.get(bound.mode, "") + _FORMS.get(bound.form, "")


def level_of(level):
    if level not in LEVELS:
        raise ValueError(f"level={level!r}: the levels are {', '.join(LEVELS)}")
    return LEVELS[level]


def parse_bound(eb, level="fast"):
    """The Bound of 0.001, "1e-3", "0.1std", "0.01range" or "lossless"."""
    number, mode = eb, ABSOLUTE
    if isinstance(eb, str):
        if eb == "lossless":
            return lossless(level_of(level))
        found = re.fullmatch(r"\s*([-+0-9.eE]+?)\s*(std|range|)\s*", eb)
        try:
            number, mode = float(found.group(1)), _MODES[found.group(2)]
        except (AttributeError, ValueError):
            raise ValueError(f'eb={eb!r} is no bound: write a number, "0.1std", "0.01range" or "lossless"') from None
    elif isinstance(eb, bool) or not isinstance(eb, numbers.Real):
        raise TypeError(f'eb={eb!r} is no bound: write a number, "0.1std", "0.01range" or "lossless"')
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"eb={eb!r}: a bound is finite and not negative")
    if number > _WIDEST.get(mode, math.inf):
        raise ValueError(f"eb={eb!r} is wider than the values themselves: the widest is {_WIDEST[mode]:g} here, and 0.1std is usual")
    return Bound(float(number), mode if number else LOSSLESS, level_of(level))


class FixedBounds:
    """The assessor of a run with one bound for all tensors that may have an error; assess.py has the adaptive one."""

    adapts = False

    def __init__(self, bound):
        self.fixed = bound
        self.step = 0

    def bound(self, site, saved):
        """How the tensor of a site is to be coded; asked before each time it is, except where the site is exact."""
        return self.fixed

    def node_made(self, node, kind, fields):
        """A node exists and its tensors are coded; `fields` are all that it saved, and each `tensor` is still raw."""

    def unpacked(self, ticket, tensor):
        """Backward reads a tensor whose ticket has a sample."""

    def found_nonfinite(self, site):
        """A tensor of the site had values that are not finite."""

    def loss_known(self, loss):
        """Before a backward pass: what it begins from, a float."""

    def begin_step(self):
        """The first forward of a step begins."""

    def end_step(self):
        """The optimiser has made its step."""
        self.step += 1

    def report(self, site):
        return {"eb": self.fixed.eb}

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state.get("step", 0)
        if state.keys() - {"step"}:
            raise ValueError("this state is of adaptive bounds, and the bounds of this run are fixed: leave out eb, or the state")
