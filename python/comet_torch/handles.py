"""What the hooks hand to autograd in place of saved tensors.

A `Content` is the memory of one tensor: raw until its role is known, then coded. A `Ticket` is one saved tensor: a content, the shape
and strides that autograd expects back, and the version that the tensor had. Several tickets may share a content: the output of a ReLU
is also the input of the next convolution, and q, k and v are views of one storage.
"""
import torch

_EMPTY = {}


def version_token(tensor):
    """A tensor without memory that shares the version counter of `tensor`."""
    token = tensor.detach()
    empty = _EMPTY.get(tensor.dtype)
    if empty is None:
        empty = _EMPTY[tensor.dtype] = torch.empty(0, dtype=tensor.dtype)
    token.data = empty
    return token


class Content:
    """One tensor in memory order. `raw` is a flat or dense view of it until it is coded; `block` is what the codec made of it."""

    __slots__ = ("raw", "block", "session", "shape", "stride", "dtype", "channels_last", "site", "eb", "nonzero", "decoded", "sample",
                 "exact", "__weakref__")

    def __init__(self, session, raw, channels_last):
        self.session = session
        self.raw = raw
        self.block = None
        self.shape = raw.shape
        self.stride = raw.stride()
        self.dtype = raw.dtype
        self.channels_last = channels_last
        self.site = None
        self.eb = 0.0
        self.nonzero = 1.0
        self.decoded = None
        self.sample = None
        self.exact = True

    def __del__(self):
        if self.block is not None:
            self.session.release(self)


class Ticket:
    """A saved tensor. `raw` is the tensor itself until its node has told what it is."""

    __slots__ = ("content", "raw", "shape", "stride", "offset", "token", "version", "order", "probe", "whole", "__weakref__")

    def __init__(self, tensor, content, whole):
        self.content = content
        self.raw = tensor.detach()
        self.shape = tensor.shape
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()
        self.token = version_token(tensor)
        self.version = tensor._version
        self.order = -1
        self.probe = None
        self.whole = whole  # the content is the whole storage, of which this is a view

    def check_version(self):
        if self.token._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a saved tensor of shape "
                f"{list(self.shape)} is at version {self.token._version}; expected version {self.version} instead. "
                "(comet_torch checks this as PyTorch does without hooks.)"
            )


def memory_order(tensor):
    """(view in memory order, channels last) of a tensor whose elements fill a range of memory without gaps, or None."""
    if tensor.is_contiguous():
        return tensor, False
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor, True
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))
    view = tensor.permute(order)
    return (view, False) if view.is_contiguous() else None


def whole_storage(tensor, least_share=0.25):
    """The storage of `tensor` as a dense matrix whose rows are as long as its largest stride, or None where it is mostly other data."""
    n = storage_of(tensor).nbytes() // tensor.element_size()
    if tensor.numel() < least_share * n or tensor.is_sparse or n == 0:
        return None
    strides = [s for s, size in zip(tensor.stride(), tensor.shape) if size > 1 and s > 1]
    row = next((s for s in sorted(strides) if n % s == 0 and s >= 64), n)
    return torch.as_strided(tensor, (n // row, row), (row, 1), 0)


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
