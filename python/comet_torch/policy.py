"""What the user asked for: bounds, overrides by pattern, and the tensors that are never packed."""
import fnmatch

import torch

from .bounds import level_of, lossless, parse_bound
from .handles import storage_of
from .roles import is_parameter

RAW = "raw"  # the override that leaves tensors alone
_KEYS = ("eb", "level")


def parse_override(pattern, value, eb, level):
    """The Bound of an override, or RAW."""
    if value == "lossless":
        return lossless(level_of(level))
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
        self.found = {}  # the override of each key
        if model is not None:
            self._check_patterns([name for name, _ in model.named_modules()])
            for tensor in list(model.parameters()) + list(model.buffers()):
                if type(tensor.data) is torch.Tensor and tensor.layout is torch.strided:
                    self.constants.add(storage_of(tensor.data)._cdata)

    def _check_patterns(self, names):
        for pattern, _ in self.patterns:
            if ":" not in pattern and not fnmatch.filter(names, pattern):
                raise ValueError(f'the override "{pattern}" fits no module of the model: names are those of model.named_modules()')

    def is_constant(self, tensor, key):
        """Is it a parameter or a buffer, or a view of one? key: identity of its storage."""
        return key in self.constants or is_parameter(tensor)

    def override(self, site):
        """The Bound or RAW that the last fitting pattern sets for a site; None where none fits."""
        return self.override_of(site.module, site.key)

    def override_of(self, module, key):
        """The same for a use of this key in a module. A pattern that fits a module fits all within it."""
        if not self.patterns:
            return None
        if key not in self.found:
            path = module.split(".")
            names = [key] + [".".join(path[:n]) for n in range(1, len(path) + 1)]
            fitting = [bound for pattern, bound in self.patterns if any(fnmatch.fnmatchcase(name, pattern) for name in names)]
            self.found[key] = fitting[-1] if fitting else None
        return self.found[key]
