"""Finds and declares libcomet_gpu.so, include/comet/gpu.h, for comet_torch: level fast on OpenCL and CUDA devices.

`gpu()` returns the loaded library; each of its fallible functions raises CometError. It is searched in this order:

1. the file that the environment variable COMET_GPU names,
2. the folder of this package,
3. build/ of the source tree that this package lies in,
4. where the system finds shared libraries, after `cmake --install`.
"""
import ctypes
import functools
import os
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from ._library import MAX_DIMS, STATUS_NAMES, CometError, declare
from ._version import __version__

FILE_NAMES = ("libcomet_gpu.so", "libcomet_gpu.so.0")
ARENA_HEAD = 256  # COMET_GPU_ARENA_HEAD; frames take multiples of as many bytes
RESULT_BYTES = 48  # of a comet_gpu_result


class Tensor(ctypes.Structure):
    """comet_tensor."""

    _fields_ = [("size", c_size_t), ("dtype", c_int), ("layout", c_int), ("n_dims", c_uint32), ("dims", c_uint64 * MAX_DIMS)]


class Params(ctypes.Structure):
    """comet_params."""

    _fields_ = [("size", c_size_t), ("bound_mode", c_int), ("bound", c_double), ("level", c_int), ("min_ratio", c_double),
                ("keep_support", c_bool), ("dither", c_bool), ("dither_seed", c_uint64), ("content_checksum", c_bool), ("profile", c_int),
                ("chunk_elements", c_uint64)]


class Pointer(ctypes.Structure):
    """A place in device memory: comet_gpu_pointer."""

    _fields_ = [("memory", c_uint64), ("offset", c_uint64)]


class Plan(ctypes.Structure):
    """Sizes: comet_gpu_plan."""

    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in (
        "n_elements", "tensor_bytes", "chunk_elements", "n_chunks", "frame_bytes", "encode_bytes", "decode_bytes", "summary_bytes")]


class Result(ctypes.Structure):
    """What the device says of a frame: comet_gpu_result."""

    _fields_ = [("status", c_uint32), ("chunk", c_uint32)] + [(name, c_uint64) for name in (
        "bytes", "offset", "n_outliers", "n_chunks_raw", "unused")]


class Arena(ctypes.Structure):
    """Device memory that frames fill one after the other: comet_gpu_arena."""

    _fields_ = [("memory", Pointer), ("bytes", c_uint64)]


_FALLIBLE = {
    "tensor_init": (POINTER(Tensor), c_int, c_uint32, POINTER(c_uint64)),
    "gpu_count": (c_char_p, POINTER(c_uint32)),
    "gpu_open": (c_char_p, c_void_p, POINTER(c_void_p)),
    "gpu_plan_tensor": (POINTER(Tensor), POINTER(Params), POINTER(Plan)),
    "gpu_decode": (c_void_p, POINTER(Tensor), POINTER(Params), Pointer, c_uint64, Pointer, Pointer, Pointer, c_void_p),
    "gpu_encode_to_arena": (c_void_p, POINTER(Tensor), POINTER(Params), Pointer, POINTER(Arena), Pointer, Pointer, c_void_p),
    "gpu_arena_reset": (c_void_p, POINTER(Arena), c_uint64, c_void_p),
    "gpu_allocate": (c_void_p, c_uint64, POINTER(c_uint64)),
    "gpu_write": (c_void_p, Pointer, c_void_p, c_uint64),
    "gpu_read": (c_void_p, Pointer, c_void_p, c_uint64),
    "gpu_finish": (c_void_p,),
}
_OTHER = {
    "version": (c_char_p, ()),
    "last_error": (c_char_p, ()),
    "params_init": (None, (POINTER(Params),)),
    "gpu_plan_init": (None, (POINTER(Plan),)),
    "gpu_close": (None, (c_void_p,)),
    "gpu_release": (None, (c_void_p, c_uint64)),
}


def _checked(status, function, arguments):
    if status:
        raise CometError(gpu().comet_last_error().decode("utf-8", "replace"), STATUS_NAMES.get(status, str(status)))
    return status


def _candidates():
    named = os.environ.get("COMET_GPU")
    if named:
        return [named]
    package = Path(__file__).resolve().parent
    files = [package / FILE_NAMES[0], package.parent.parent / "build" / FILE_NAMES[0]]
    return [str(path) for path in files if path.is_file()] + [FILE_NAMES[1]]


@functools.lru_cache(maxsize=None)
def gpu():
    """The library, loaded once. Raises CometError with the reason and what helps."""
    path = _candidates()[0]
    try:
        library = ctypes.CDLL(path)
        declare(library, "comet_", _FALLIBLE, _OTHER, _checked)
    except (OSError, AttributeError) as error:
        raise CometError(f"{path}, which serves tensors on GPUs, cannot be used: {error}; `cmake --build build --target comet_gpu` builds "
                         "it in a source tree, COMET_GPU names its file", "library") from None
    found = library.comet_version().decode("ascii", "replace")
    if found != __version__:
        raise CometError(f"{path} is of version {found}, the Python package of {__version__}: build it again, or unset COMET_GPU",
                         "library")
    return library
