"""What the user asked for: bounds, overrides by pattern, and the tensors that are never packed."""
import fnmatch
import math
import numbers
import re

import torch

from .bounds import Bound
from .handles import storage_of

LEVELS = ("fast", "dense", "auto")
RAW = "raw"  # the override that leaves tensors alone
_KEYS = ("eb", "level")
_WIDEST = {None: math.inf, "std": 1.0}
_HOW = 'write a number, "0.1std" or "lossless"'


def check_level(level):
    if level not in LEVELS:
        raise ValueError(f"level={level!r}: the levels are {', '.join(LEVELS)}")
    return level


def parse_bound(eb, level="fast"):
    """The Bound of 0.001, "1e-3", "0.1std" or "lossless"."""
    check_level(level)
    number, relative = eb, None
    if isinstance(eb, str):
        if eb == "lossless":
            return Bound(0.0, level=level)
        found = re.fullmatch(r"\s*([-+0-9.eE]+?)\s*(std)?\s*", eb)
        try:
            number, relative = float(found.group(1)), found.group(2)
        except (AttributeError, ValueError):
            raise ValueError(f"eb={eb!r} is no bound: {_HOW}") from None
    elif isinstance(eb, bool) or not isinstance(eb, numbers.Real):
        raise TypeError(f"eb={eb!r} is no bound: {_HOW}")
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"eb={eb!r}: a bound is finite and not negative")
    if number > _WIDEST[relative]:
        raise ValueError(f"eb={eb!r} is wider than the values themselves are apart: 1std is the widest, 0.1std is usual")
    return Bound(float(number), relative if number else None, level=level)


def parse_override(pattern, value, eb, level):
    """The Bound of an override, or RAW."""
    if value == "lossless":
        return Bound(0.0, level=level)
    if value == RAW:
        return RAW
    if not isinstance(value, dict):
        raise TypeError(f'the override of "{pattern}" is {value!r}: write "lossless", "raw" or dict(eb=..., level=...)')
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise ValueError(f'the override of "{pattern}" has {", ".join(map(str, unknown))}: eb and level are known')
    eb = value.get("eb", eb)
    if eb is None:
        raise ValueError(f'the override of "{pattern}" needs a bound: dict(eb=...)')
    return parse_bound(eb, value.get("level", level))


class Policy:
    def __init__(self, model, overrides, eb, level):
        self.patterns = [(pattern, parse_override(pattern, value, eb, level)) for pattern, value in (overrides or {}).items()]
        self.constants = set()
        if model is not None:
            self._check_patterns([name for name, _ in model.named_modules()])
            for tensor in list(model.parameters()) + list(model.buffers()):
                if type(tensor.data) is torch.Tensor and tensor.layout is torch.strided:
                    self.constants.add(storage_of(tensor.data)._cdata)

    def _check_patterns(self, names):
        for pattern, _ in self.patterns:
            if ":" not in pattern and not fnmatch.filter(names, pattern):
                raise ValueError(f'the override "{pattern}" fits no module of the model: names are those of model.named_modules()')

    def is_constant(self, tensor):
        """Is it a parameter or a buffer, or a view of one?"""
        return isinstance(tensor, torch.nn.Parameter) or isinstance(tensor._base, torch.nn.Parameter) \
            or storage_of(tensor)._cdata in self.constants

    def override(self, site):
        """The Bound or RAW that the last fitting pattern sets for a site; None where none fits."""
        if not self.patterns:
            return None
        if site.override is None:
            found = [bound for pattern, bound in self.patterns
                     if fnmatch.fnmatchcase(site.module, pattern) or fnmatch.fnmatchcase(site.key, pattern)]
            site.override = (found[-1] if found else None,)
        return site.override[0]
