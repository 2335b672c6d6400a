"""Booleans and indices of pools on devices, packed by PyTorch's own operators, so that the host does not wait.

What session.Session packs with the library's code for tensors of the CPU, DeviceSession packs with this. Tensors are dense in memory,
and come back in its order.
"""
import torch

_PIECE = 1 << 22  # elements, a multiple of 8: temporary tensors stay small
_BITS = 8


def _in_memory_order(tensor):
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def _pieces(n):
    return ((first, min(first + _PIECE, n)) for first in range(0, n, _PIECE))


class Packed:
    """A block that is a tensor itself."""

    __slots__ = ("stored",)

    @property
    def bytes(self):
        return self.stored.numel() * self.stored.element_size()


class Booleans(Packed):
    """One bit an element."""

    __slots__ = ()

    def __init__(self, tensor):
        flat, places = _in_memory_order(tensor), self._places(tensor.device)
        self.stored = torch.empty(-(-flat.numel() // _BITS), dtype=torch.uint8, device=tensor.device)
        for first, end in _pieces(flat.numel()):
            piece, rest = flat[first:end], (first - end) % _BITS
            if rest:
                piece = torch.cat((piece, piece.new_zeros(rest)))
            self.stored[first // _BITS : -(-end // _BITS)] = (piece.view(-1, _BITS) * places).sum(1, dtype=torch.uint8)

    def decode(self, tensor):
        flat, places = _in_memory_order(tensor), self._places(tensor.device)
        for first, end in _pieces(flat.numel()):
            found = (self.stored[first // _BITS : -(-end // _BITS), None] & places).flatten()
            flat[first:end] = found[: end - first]

    @staticmethod
    def _places(device):
        """1, 2, 4 ... 128, made on the device."""
        places = torch.arange(_BITS, dtype=torch.uint8, device=device)
        return torch.ones_like(places) << places


class Indices(Packed):
    """Integers from 0 to less than `limit`, in two bytes where these hold them, else in four."""

    __slots__ = ()

    def __init__(self, tensor, limit):
        self.stored = _in_memory_order(tensor).to(torch.int16 if limit <= 1 << 15 else torch.int32)

    def decode(self, tensor):
        _in_memory_order(tensor).copy_(self.stored)
