"""What the hooks hand to autograd in place of saved tensors.

A `Ticket` is one saved tensor. It holds the tensor itself where that passes through, or refers to a `Content`: the coded values of one
storage, or of a part of one. Several tickets may share a content: the result of a ReLU is also the input of the next convolution, and
q, k and v are views of one storage.
"""
import time
import weakref

import torch

_UNTYPED = hasattr(torch.Tensor, "untyped_storage")
_EMPTY = {}
_LEAST_SHARE = 0.2
_free_weak_reference = torch.UntypedStorage._free_weak_ref


def version_token(tensor):
    """A tensor without memory that shares the version counter of `tensor`."""
    token = tensor.detach()
    empty = _EMPTY.get(tensor.dtype) if tensor.is_cpu else None
    token.data = _empty(tensor) if empty is None else empty
    return token


def _empty(tensor):
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    if tensor.is_cpu:
        _EMPTY[tensor.dtype] = empty
    return empty


def _can_set_versions():
    """Does this torch let a version counter be moved and set back?"""
    try:
        a = torch.zeros(1)
        b = a.detach()
        torch._C._increment_version((a,))
        moved = b._version
        torch._C._autograd._unsafe_set_version_counter((a,), (0,))
        return moved == 1 and b._version == 0
    except (AttributeError, TypeError, RuntimeError):
        return False


_SETS_VERSIONS = _can_set_versions()


def _base_of(tensor):
    return tensor._base if tensor._is_view() else tensor


def is_unchanged(content, tensor):
    """Does the tensor have the version counter that the content's had, and is that unmoved? Pieces of one storage may have counters of
    their own, such as those of unsafe_chunk."""
    version, token = content.version, content.token
    if tensor._version != version or token._version != version:
        return False
    if not _SETS_VERSIONS:
        return content.base() is _base_of(tensor)
    torch._C._increment_version((token,))
    same = tensor._version != version
    torch._C._autograd._unsafe_set_version_counter((token,), (version,))
    return same


def storage_of(tensor):
    """The untyped storage; torch before 2.0 hands it out through the typed one."""
    return tensor.untyped_storage() if _UNTYPED else tensor.storage().untyped()


def changed(shape, found, expected):
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: a saved tensor of shape "
        f"{list(shape)} is at version {found}; expected version {expected} instead. (comet_torch checks this as PyTorch does without "
        "hooks.)"
    )


class Outline:
    """What a dense tensor is but for its values. All tensors that a site saves share one while they are alike."""

    __slots__ = ("shape", "stride", "dtype", "n_elements", "bytes")

    def __init__(self, dense):
        self.shape, self.stride, self.dtype = dense.shape, dense.stride(), dense.dtype
        self.n_elements = dense.numel()
        self.bytes = self.n_elements * dense.element_size()


class Content:
    """Coded values. `outline` is of the tensor that the codec gets and gives back; tickets are views of its memory, which begins
    at element `first` of the storage that they were saved from."""

    __slots__ = ("session", "registry", "key", "reference", "storage", "block", "mask", "pieces", "shape", "stride", "dtype", "first",
                 "n_elements", "token", "version", "base", "site", "bound", "eb", "nonzero", "raw_bytes", "coded_bytes", "lossless",
                 "support", "n_open", "seconds", "__weakref__")

    def __init__(self, session, outline, tensor, first, site=None):
        self.session, self.site = session, site
        self.key = self.block = self.mask = self.pieces = self.bound = None
        self.shape, self.stride, self.dtype = outline.shape, outline.stride, outline.dtype
        self.n_elements, self.raw_bytes = outline.n_elements, outline.bytes
        self.first = first  # None: a copy, which no other ticket may share
        self.token, self.version = version_token(tensor), tensor._version
        if not _SETS_VERSIONS:
            self.base = weakref.ref(_base_of(tensor))
        self.eb, self.nonzero = 0.0, 1.0
        self.coded_bytes = self.n_open = 0
        self.lossless = self.support = True
        self.seconds = 0.0

    def __del__(self):
        if self.key is not None:
            self.registry.forget(self)
            _free_weak_reference(self.storage)
        if self.block is not None:
            self.session.free(self.block)
            if self.mask is not None:
                self.session.free(self.mask)
        elif self.pieces is not None:
            for block in self.pieces.blocks:
                self.session.free(block)

    def decode(self):
        """The dense tensor, decoded."""
        coding = self.site.coding
        began = 0.0 if coding is None else time.perf_counter()
        dense = self.session.empty_strided(self.shape, self.stride, dtype=self.dtype)
        if self.pieces is None:
            self.session.decode(self.block, dense, self.raw_bytes)
            if self.mask is not None:
                self._restore_zeros(dense)
        else:
            self.pieces.decode(self._decode_piece, dense)
        if coding is not None:
            coding.add(0, time.perf_counter() - began)
        return dense

    def stored_bytes(self):
        """What the blocks take."""
        blocks = self.pieces.blocks if self.pieces is not None else [self.block, self.mask]
        return sum(self.session.block_bytes(block) for block in blocks if block is not None)

    def _decode_piece(self, block, tensor):
        self.session.decode(block, tensor, tensor.numel() * tensor.element_size())

    def _restore_zeros(self, dense):
        nonzero = self.session.empty_strided(self.shape, self.stride, dtype=torch.bool)
        self.session.decode(self.mask, nonzero, self.n_elements)
        dense.mul_(nonzero)


class Ticket:
    """A saved tensor. `raw` is the tensor itself where it passes through, and until its node has told its role."""

    __slots__ = ("raw", "version", "content", "view", "role", "sample", "__weakref__")

    def __init__(self, tensor):
        self.raw = tensor
        self.version = tensor._version
        self.content = self.view = self.role = self.sample = None

    def attach(self, content):
        """Refers to a content instead of the tensor."""
        t = self.raw
        if content.first is not None:
            shape, stride, first = t.shape, t.stride(), t.storage_offset() - content.first
            whole = first == 0 and shape == content.shape and stride == content.stride
            self.view = None if whole else (shape, stride, first)
        self.content, self.raw = content, None
        content.n_open += 1

    def keep(self):
        """Lets the tensor itself pass through, without its history."""
        t = self.raw
        if t is not None and t.grad_fn is not None:
            self.raw = t.detach()


class Shape:
    """What a ticket refers to where backward reads the shape of the tensor only."""

    __slots__ = ("shape", "stride", "dtype", "token", "version")

    def __init__(self, tensor):
        self.shape, self.stride, self.dtype = tensor.shape, tensor.stride(), tensor.dtype
        self.token, self.version = version_token(tensor), tensor._version

    def decode(self):
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.token.device)


def fills_its_memory(tensor):
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def memory_order(tensor):
    """(view in memory order, channels last) of a tensor whose elements fill a range of memory without gaps, or None."""
    if tensor.is_contiguous():
        return tensor, False
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor, True
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))
    view = tensor.permute(order)
    return (view, False) if view.is_contiguous() else None


def whole_storage(tensor):
    """The storage of `tensor` as a dense matrix whose rows are as long as its largest fitting stride; None where the tensor is a small
    part of it."""
    n = storage_of(tensor).nbytes() // tensor.element_size()
    if tensor.numel() < _LEAST_SHARE * n or n == 0:
        return None
    strides = [s for s, size in zip(tensor.stride(), tensor.shape) if size > 1 and s > 1]
    row = next((s for s in sorted(strides) if n % s == 0 and s >= 64), n)
    return torch.as_strided(tensor, (n // row, row), (row, 1), 0)


def layout_of(tensor, storage):
    """(tensor to code, channels last, first element in the storage) for a saved tensor: itself where it fills its storage, else the
    whole storage where it is a view, else a dense copy. The last is None for a copy, which no other ticket may share."""
    n, n_taken = storage.nbytes() // tensor.element_size(), tensor.numel()
    if n_taken == n or n_taken < _LEAST_SHARE * n:
        if tensor.is_contiguous():
            return tensor, False, tensor.storage_offset()
        found = memory_order(tensor)
        if found is not None:
            return found + (tensor.storage_offset(),)
    whole = whole_storage(tensor) if tensor._is_view() else None
    if whole is not None:
        return whole, False, 0
    return tensor.contiguous(), False, None
