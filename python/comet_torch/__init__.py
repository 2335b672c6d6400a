"""Comet for PyTorch: what forward saves for backward is kept compressed.

    with comet_torch.compress(model, optimizer) as mem:
        for x, y in loader:
            optimizer.zero_grad(); loss = criterion(model(x), y); loss.backward(); optimizer.step()
    print(mem.report())

Names are imported when they are first used, so that `python -m comet_torch run` starts a script without importing torch twice.
"""
import importlib

from comet_codec import CometError, __version__

# The module of each public name. A module has not the name of a function: importing it would hide the function.
_MODULES = {"Memory": "context", "compress": "context", "Peak": "peak_memory", "peak": "peak_memory",
            "CometCallback": "huggingface"}
# Modules that need a package of their own. That of Lightning has a CometCallback, too.
_INTEGRATIONS = ("huggingface", "lightning")

__all__ = ["CometError", "__version__", *(name for name in _MODULES if name != "CometCallback")]  # `import *` needs torch only


def __getattr__(name):
    if name in _INTEGRATIONS:
        return importlib.import_module("." + name, __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_MODULES, *_INTEGRATIONS})
