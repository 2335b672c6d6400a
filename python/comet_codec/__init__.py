"""Tensors compressed with a strict error bound: the NumPy binding of the Comet codec.

    frame = comet_codec.compress(array, eb="0.1std")
    array = comet_codec.decompress(frame)

The bytes are those of the program `comet compress`, and options have its names. Every failure is a CometError with the reason.
"""

from ._codec import compress, decompress, info, verify
from ._library import CometError
from ._version import __version__

__all__ = ["CometError", "__version__", "compress", "decompress", "info", "verify"]
