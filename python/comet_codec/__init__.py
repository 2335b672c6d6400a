"""Tensors compressed with a strict error bound: the NumPy binding of the Comet codec."""

from ._library import CometError
from ._version import __version__

__all__ = ["CometError", "__version__"]
