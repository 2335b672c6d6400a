"""Comet for PyTorch: what forward saves for backward is kept compressed.

    with comet_torch.compress(model, optimizer) as mem:
        for x, y in loader:
            optimizer.zero_grad(); loss = criterion(model(x), y); loss.backward(); optimizer.step()
    print(mem.report())
"""
from comet_codec import CometError, __version__

from .context import Memory, compress

__all__ = ["CometError", "Memory", "__version__", "compress"]
