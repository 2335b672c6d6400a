"""Finds, checks and declares libcomet_native.so, python/native/comet_native.h, for comet_codec and comet_torch.

`native()` returns the loaded library. Its functions take and return plain ctypes values; one that returns a comet_status raises
CometError instead of returning a failure. The library is searched in this order:

1. the file that the environment variable COMET_NATIVE names,
2. the folder of this package, where a wheel has it,
3. build/python of the source tree that this package lies in.
"""

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from ._version import __version__

FILE_NAME = "libcomet_native.so"
MAX_DIMS = 8

# comet_dtype, comet_layout, comet_bound_mode, comet_level and comet_profile of include/comet/codec.h.
F32, F16, BF16, F64 = range(4)
PLANAR, CHANNELS_LAST, BLOCKED8, BLOCKED16 = range(4)
ABSOLUTE, RANGE, STDDEV, LOSSLESS, RATIO = range(5)
FAST, DENSE, AUTO = range(3)
HOST, DEVICE = range(2)
# Whose threads work for a session.
OWN_THREADS, TORCH_THREADS, GOMP_THREADS = range(3)

STATUS_NAMES = {1: "argument", 2: "overflow", 3: "memory", 4: "capacity", 5: "corrupt", 6: "unsupported", 7: "unreachable", 8: "io",
                9: "diverged"}


class CometError(RuntimeError):
    """What Comet could not do, in a sentence. `status` is a value of STATUS_NAMES, "library" where the library is not usable, or
    "measure" where a function could not be measured."""

    def __init__(self, sentence, status):
        super().__init__(sentence)
        self.status = status

    def __reduce__(self):
        return CometError, (str(self), self.status)


# ---- structs; each begins with its size, which tells the library whether it is the same declaration ----


class _Sized(ctypes.Structure):
    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


class Job(_Sized):
    """How to encode a tensor, and what came of it: comet_native_job."""

    _fields_ = [
        ("size", c_size_t), ("dtype", c_uint32), ("layout", c_uint32), ("n_dims", c_uint32), ("bound_mode", c_uint32),
        ("dims", c_uint64 * MAX_DIMS), ("bound", c_double), ("level", c_uint32), ("keep_support", c_uint32), ("dither", c_uint32),
        ("checksum", c_uint32), ("dither_seed", c_uint64), ("min_ratio", c_double), ("chunk_elements", c_uint64),
        ("profile", c_uint64),
        ("eb", c_double), ("bytes_raw", c_uint64), ("bytes_coded", c_uint64), ("bytes_block", c_uint64), ("n_nonzero", c_uint64),
        ("n_nonfinite", c_uint64),
        ("sum_of_squares", c_double), ("min", c_double), ("max", c_double), ("seconds", c_double),
    ]


class Figures(_Sized):
    """Bytes of a session: comet_native_figures."""

    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in (
        "bytes_used", "bytes_reserved", "peak_used", "peak_reserved", "n_blocks", "bytes_scratch")]


class Affine(_Sized):
    """A factor and a summand for each channel of an array: comet_native_affine."""

    _fields_ = [("size", c_size_t), ("dtype", c_uint32), ("n_outer", c_uint64), ("n_channels", c_uint64), ("n_inner", c_uint64),
                ("scale", c_void_p), ("shift", c_void_p)]


class Windows(_Sized):
    """Of max pooling, whose indices are packed: comet_native_windows."""

    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in ("n_outer", "n_rows", "n_columns", "n_inner", "width")] + [
        (name, c_uint32 * 2) for name in ("kernel", "stride", "padding", "dilation")]


class Frame(_Sized):
    """The header of a frame: comet_native_frame."""

    _fields_ = [
        ("size", c_size_t), ("version", c_uint32), ("dtype", c_uint32), ("layout", c_uint32), ("n_dims", c_uint32),
        ("dims", c_uint64 * MAX_DIMS), ("eb", c_double), ("lossless", c_uint32), ("keep_support", c_uint32), ("dither", c_uint32),
        ("checksum", c_uint32), ("dither_seed", c_uint64), ("level", c_uint64), ("profile", c_uint64), ("n_elements", c_uint64),
        ("tensor_bytes", c_uint64), ("frame_bytes", c_uint64), ("chunk_elements", c_uint64), ("n_chunks", c_uint64), ("header_bytes", c_uint64),
    ]


class Comparison(_Sized):
    """How far a decoded tensor is from its original: comet_native_comparison."""

    _fields_ = [("size", c_size_t), ("n_elements", c_uint64), ("max_error", c_double), ("rmse", c_double), ("psnr", c_double)] + [
        (name, c_uint64) for name in ("n_violations", "first_violation", "n_zeros", "n_zeros_kept", "n_support_lost")]


class Consumer(_Sized):
    """A consumer of the adaptive bound: comet_native_consumer."""

    _fields_ = [("size", c_size_t)] + [(name, c_double) for name in (
        "sigma_target", "sigma_predicted", "sigma_measured", "share", "sigma_ratio")] + [
        (name, c_uint32) for name in ("limits", "at_limit", "is_parameter", "tensor")]


# ---- functions: those that fail, with their arguments; then the others, with the type of their result ----

_FALLIBLE = {
    "create": (POINTER(c_void_p), c_uint32, c_int, c_void_p),
    "memory": (c_void_p, POINTER(Figures)),
    "sizes": (POINTER(Job), POINTER(c_size_t), POINTER(c_size_t)),
    "encode": (c_void_p, POINTER(Job), c_void_p, POINTER(c_void_p)),
    "pack_two": (c_void_p, c_void_p, c_uint32, c_uint64, POINTER(c_void_p)),
    "pack_integers": (c_void_p, c_void_p, c_uint32, c_int, c_uint64, POINTER(c_void_p)),
    "pack_windows": (c_void_p, POINTER(Windows), c_void_p, POINTER(c_void_p)),
    "pack_positive": (c_void_p, c_uint32, c_void_p, c_uint64, POINTER(c_void_p), POINTER(c_uint64)),
    "compute": (c_void_p, POINTER(Affine), c_void_p, c_void_p, c_void_p, c_void_p),
    "decode": (c_void_p, c_void_p, c_void_p, c_size_t),
    "compress": (c_void_p, POINTER(Job), c_void_p, c_void_p, c_size_t, POINTER(c_size_t)),
    "decompress": (c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, POINTER(c_size_t)),
    "describe": (c_void_p, c_size_t, POINTER(Frame)),
    "compare": (c_uint32, c_uint64, c_void_p, c_void_p, c_double, POINTER(Comparison)),
    "adapt_create": (POINTER(c_void_p), c_int, c_double, c_uint32, c_int),
    "adapt_add_tensor": (c_void_p, c_char_p, c_uint64, POINTER(c_uint32)),
    "adapt_add_parameter": (c_void_p, c_uint32, c_char_p, c_uint64, POINTER(c_uint32)),
    "adapt_add_pass": (c_void_p, c_uint32, c_char_p, POINTER(c_uint32)),
    "adapt_observe": (c_void_p, c_uint32, c_double, c_double, c_double, c_double, c_double),
    "adapt_consumer": (c_void_p, c_uint32, POINTER(Consumer)),
    "adapt_export": (c_void_p, POINTER(c_double), c_uint64),
    "adapt_import": (c_void_p, POINTER(c_double), c_uint64),
}

_OTHER = {
    "version": (c_char_p, ()),
    "last_error": (c_char_p, ()),
    "destroy": (None, (c_void_p,)),
    "free": (None, (c_void_p, c_void_p)),
    "raw_bytes": (c_uint64, (c_void_p,)),
    "block_bytes": (c_uint64, (c_void_p,)),
    "adapt_destroy": (None, (c_void_p,)),
    "adapt_due": (c_int, (c_void_p, c_uint64)),
    "adapt_complete": (c_int, (c_void_p, c_uint64)),
    "adapt_assess": (None, (c_void_p, c_uint64)),
    "adapt_retreat": (None, (c_void_p, c_uint64)),
    "adapt_restart": (None, (c_void_p, c_uint64)),
    "adapt_n_assessed": (c_uint64, (c_void_p,)),
    "adapt_eb": (c_double, (c_void_p, c_uint32)),
    "adapt_pass_left": (c_double, (c_void_p, c_uint32)),
    "adapt_n_consumers": (c_uint32, (c_void_p,)),
    "adapt_sigma_ratios": (None, (c_void_p, POINTER(c_double), POINTER(c_double))),
    "adapt_noise": (c_double, (c_double, c_double, c_uint64)),
    "adapt_n_numbers": (c_uint64, (c_void_p,)),
}


def check(status):
    """Raises CometError for the status of a function that failed."""
    if status:
        raise CometError(native().comet_native_last_error().decode("utf-8", "replace"), STATUS_NAMES.get(status, str(status)))


def _checked(status, function, arguments):
    check(status)
    return status


def declare(library, prefix, fallible, other, checked):
    """Gives functions of a library their types; `checked` is the errcheck of those that fail."""
    for name, arguments in fallible.items():
        function = getattr(library, prefix + name)
        function.restype, function.argtypes, function.errcheck = c_int, arguments, checked
    for name, (result, arguments) in other.items():
        function = getattr(library, prefix + name)
        function.restype, function.argtypes = result, arguments


def of_addresses(name):
    """The function of this name for calls that are made very often: pointers are numbers, and what it returns is a status for check()."""
    function = native()[name]  # an object of its own
    function.argtypes = tuple(c_size_t if argument is c_size_t else c_void_p for argument in getattr(native(), name).argtypes)
    return function


# ---- finding the library ----


def _candidates():
    package = Path(__file__).resolve().parent
    return [package / FILE_NAME, package.parent.parent / "build" / "python" / FILE_NAME]


def library_path():
    """The file that native() loads."""
    named = os.environ.get("COMET_NATIVE")
    if named:
        if not os.path.isfile(named):
            raise CometError(f"COMET_NATIVE names {named}, which is not a file: unset it, or give the path of a {FILE_NAME}", "library")
        return named
    for path in _candidates():
        if path.is_file():
            return str(path)
    places = " and ".join(str(path) for path in _candidates())
    raise CometError(f"{FILE_NAME} is missing (looked for {places}): `pip install ./python` builds and installs it, "
                     "`cmake --build build --target comet_native` builds it in a source tree", "library")


@functools.lru_cache(maxsize=None)
def native():
    """The library, loaded and checked once. Raises CometError with the reason and what helps."""
    path = library_path()
    again = "build it again with `pip install --force-reinstall ./python`, or in a source tree with " \
            "`cmake --build build --target comet_native`"
    try:
        library = ctypes.CDLL(path)
        library.comet_native_version.restype = c_char_p
        found = library.comet_native_version().decode("ascii", "replace")
    except (OSError, AttributeError) as error:
        raise CometError(f"{path} cannot be used: {error}; {again}", "library") from None
    if found != __version__:
        raise CometError(f"{path} is of version {found}, the Python package of {__version__}: {again}, and unset COMET_NATIVE where it "
                         "names an old build", "library")
    try:
        declare(library, "comet_native_", _FALLIBLE, _OTHER, _checked)
    except AttributeError as error:
        raise CometError(f"{path} is older than the Python package: {error}; {again}", "library") from None
    return library
