"""Tensors to blocks of the native library and back, with the threads that torch itself uses.

A `Session` owns the pool that holds all coded bytes. It lives as long as the last content coded with it, which may outlive the
`with` block. The native calls release the interpreter's lock.
"""
import ctypes
import os
import weakref

import torch

from comet_codec import CometError
from comet_codec._library import (CHANNELS_LAST, GOMP_THREADS, MAX_DIMS, OWN_THREADS, PLANAR, TORCH_THREADS, Affine, Figures, Job, Windows,
                                  check, native, of_addresses)

from .handles import Outline

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.float64: 3}
_SIGNED = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})


def _address(library, name):
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return None


def _loaded(name):
    """The shared library whose file name begins so, if this process has loaded it already."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path and os.path.basename(path).startswith(name):
                return ctypes.CDLL("/" + path)
    return None


def host_threads():
    """(kind, entry point) of the threads that work for torch: its own parallel-for, else its libgomp, else threads of ours."""
    for name, symbol, kind in (("libtorch_cpu.", "torch_parallel_for", TORCH_THREADS), ("libgomp", "GOMP_parallel", GOMP_THREADS)):
        library = _loaded(name)
        entry = _address(library, symbol) if library else None
        if entry:
            return kind, entry
    return OWN_THREADS, None


class Prepared(Outline):
    """How tensors of one type and shape are described to the library. Fields for the bound are written only where they change."""

    __slots__ = ("job", "address", "channels_last", "bound", "support", "seed")

    def __init__(self, dense, channels_last):
        super().__init__(dense)
        self.channels_last = channels_last
        dims = self.shape if 0 < len(self.shape) <= MAX_DIMS else (self.shape.numel(),)
        self.job = Job(dtype=DTYPES[self.dtype], n_dims=len(dims), layout=CHANNELS_LAST if channels_last else PLANAR)
        self.job.dims[: len(dims)] = dims
        self.address = ctypes.addressof(self.job)
        self.bound = self.support = self.seed = None

    def fits(self, dense, channels_last):
        return self.shape == dense.shape and self.stride == dense.stride() and self.dtype is dense.dtype \
            and self.channels_last is channels_last

    def ask(self, bound, support, seed):
        """Writes how to code the next tensor: bounds do not change once they are made."""
        job = self.job
        job.bound_mode, job.bound, job.level = bound.mode, bound.eb, bound.level
        job.keep_support = bound.keep_support or support
        job.dither, job.dither_seed = seed is not None, seed or 0
        self.bound, self.support, self.seed = bound, support, seed


class Session:
    CALLS = ("_encode", "_decode", "_free")  # of the library, for each tensor
    counts_zeros = True  # does encode tell at once how many elements are not 0?
    empty_strided = staticmethod(torch.empty_strided)

    def __init__(self):
        self.native = native()
        handle = ctypes.c_void_p()
        kind, entry = host_threads()
        self.native.comet_native_create(ctypes.byref(handle), torch.get_num_threads(), kind, entry)
        self.handle = handle.value
        self.is_owner = True  # of the threads and the pool: not in a forked process
        _sessions.add(self)
        for name in self.CALLS:
            setattr(self, name, of_addresses("comet_native" + name))
        self.out = ctypes.c_void_p()  # where encode writes the address of a block
        self.out_address = ctypes.addressof(self.out)

    def __del__(self):
        # The garbage collector may finish a session before contents of it that are garbage, too: these find no handle then.
        if getattr(self, "is_owner", False):
            self.is_owner = False
            self.native.comet_native_destroy(self.handle)

    # ---- encoding; each function returns the address of a block ----

    def encode(self, prepared, tensor, bound, support=False, seed=None):
        """Encodes a tensor that is as `prepared` says, with a seed with dither. Results in the job hold until its next use."""
        if prepared.bound is not bound or prepared.support is not support or prepared.seed is not seed:
            prepared.ask(bound, support, seed)
        status = self._encode(self.handle, prepared.address, tensor.data_ptr(), self.out_address)
        if status:
            check(status)
        return self.out.value

    def pack_two(self, tensor):
        """A block of a tensor with at most two different values, or None."""
        block = ctypes.c_void_p()
        self.native.comet_native_pack_two(self.handle, tensor.data_ptr(), tensor.element_size(), tensor.numel(), ctypes.byref(block))
        return block.value

    def pack_integers(self, tensor):
        """A block of integers in fewer bits, or None where that saves nothing."""
        block = ctypes.c_void_p()
        self.native.comet_native_pack_integers(self.handle, tensor.data_ptr(), tensor.element_size(), tensor.dtype in _SIGNED,
                                               tensor.numel(), ctypes.byref(block))
        return block.value

    def pack_windows(self, indices, width, kernel, stride, padding, dilation):
        """A block of max pooling's indices, N C H W, or None where they are not of such windows. `width` is that of the planes which
        they number, the others are pairs."""
        n, channels, rows, columns = indices.shape
        planar = indices.is_contiguous()
        windows = Windows(n_outer=n * channels if planar else n, n_rows=rows, n_columns=columns, n_inner=1 if planar else channels,
                          width=width)
        windows.kernel[:], windows.stride[:], windows.padding[:], windows.dilation[:] = kernel, stride, padding, dilation
        block = ctypes.c_void_p()
        self.native.comet_native_pack_windows(self.handle, ctypes.byref(windows), indices.data_ptr(), ctypes.byref(block))
        return block.value

    def pack_positive(self, tensor):
        """A block of where a tensor is not <= 0, and the number of such elements. The tensor is dense, its type one of the first three
        of DTYPES."""
        block, count = ctypes.c_void_p(), ctypes.c_uint64()
        self.native.comet_native_pack_positive(self.handle, DTYPES[tensor.dtype], tensor.data_ptr(), tensor.numel(), ctypes.byref(block),
                                               ctypes.byref(count))
        return block.value, count.value

    # ---- decoding ----

    def decode(self, block, tensor, n_bytes):
        """Decodes into a tensor of n_bytes that is dense in memory."""
        status = self._decode(self.handle, block, tensor.data_ptr(), n_bytes)
        if status:
            check(status)

    def compute(self, scale, shift, signs, x, add, y):
        """y = scale x + shift + add, dimension 1 being that of the channels; with a block of signs, as ReLU's result. x, add and y are
        dense and of the same shape; scale and shift are f32."""
        channels = scale.numel()
        outer = y.shape[0] if y.is_contiguous() else y.numel() // channels
        affine = Affine(dtype=DTYPES[y.dtype], n_outer=outer, n_channels=channels, n_inner=y.numel() // (outer * channels),
                        scale=scale.data_ptr(), shift=shift.data_ptr())
        self.native.comet_native_compute(self.handle, ctypes.byref(affine), signs, x.data_ptr(), None if add is None else add.data_ptr(),
                                         y.data_ptr())

    def block_bytes(self, block):
        return self.native.comet_native_block_bytes(block)

    def free(self, block):
        if self.is_owner:
            self._free(self.handle, block)

    def memory(self):
        figures = Figures()
        self.native.comet_native_memory(self.handle, ctypes.byref(figures))
        return figures


_sessions = weakref.WeakSet()


def _forked():
    for session in _sessions:
        session.is_owner = False


os.register_at_fork(after_in_child=_forked)

__all__ = ["CometError", "DTYPES", "Prepared", "Session", "host_threads"]
