"""What the user asked for: overrides by pattern, and the tensors that are never packed."""
import fnmatch

import torch

from .bounds import lossless, parse_bound
from .handles import storage_of

_KEYS = frozenset({"eb", "level"})


class PassThrough:
    """The override "raw": tensors of these modules are left alone."""


def parse_override(pattern, value, eb, level):
    """The Bound of an override; a PassThrough for "raw"."""
    if value == "lossless":
        return lossless()
    if value == "raw":
        return PassThrough()
    if not isinstance(value, dict):
        raise TypeError(f'the override of "{pattern}" is {value!r}: write "lossless", "raw" or dict(eb=..., level=...)')
    unknown = set(value) - _KEYS
    if unknown:
        raise ValueError(f'the override of "{pattern}" has {", ".join(sorted(unknown))}: eb and level are known')
    eb = value.get("eb", eb)
    if eb is None:
        raise ValueError(f'the override of "{pattern}" needs a bound: dict(eb=...)')
    return parse_bound(eb, value.get("level", level))


class Policy:
    def __init__(self, model, overrides, eb, level):
        self.patterns = [(pattern, parse_override(pattern, value, eb, level)) for pattern, value in (overrides or {}).items()]
        names = [name for name, _ in model.named_modules()] if model is not None else []
        for pattern, _ in self.patterns:
            if model is not None and not fnmatch.filter(names, pattern):
                raise ValueError(f'the override "{pattern}" fits no module of the model: names are those of model.named_modules()')
        self.constants = set()
        if model is not None:
            for tensor in list(model.parameters()) + list(model.buffers()):
                if type(tensor.data) is torch.Tensor and tensor.layout is torch.strided:
                    self.constants.add(storage_of(tensor.data)._cdata)

    def is_constant(self, tensor):
        """Is it a parameter or a buffer, or a view of one?"""
        return isinstance(tensor, torch.nn.Parameter) or isinstance(tensor._base, torch.nn.Parameter) \
            or storage_of(tensor)._cdata in self.constants

    def override(self, site):
        """The Bound or PassThrough that the last matching pattern sets for a site, or None."""
        if not self.patterns:
            return None
        if site.override is None:
            names = (site.module, site.key)
            found = [bound for pattern, bound in self.patterns if any(fnmatch.fnmatchcase(name, pattern) for name in names)]
            site.override = (found[-1] if found else None,)
        return site.override[0]
