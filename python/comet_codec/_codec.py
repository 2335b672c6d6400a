"""compress, decompress, info and verify: what the program of the same verbs does, on NumPy arrays and bytes."""

import ctypes
import functools
import os

import numpy as np

from . import _library
from ._library import CometError, Comparison, Frame, Job, native
from ._options import (LAYOUTS, LEVELS, PROFILES, TYPES, dims_of_shape, fail, look_up, memory_shape, name_of, parse_bound, place_of)

_DTYPES = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2"), "f64": np.dtype("<f8")}
_MOST_SEED, _CHUNK_RANGE, _MOST_RATIO = (1 << 64) - 1, (64, 1 << 24), 1e6


class _Session:
    """Threads and contexts of the library."""

    def __init__(self, n_threads):
        self.handle = ctypes.c_void_p()
        self.native = native()
        self.native.comet_native_create(ctypes.byref(self.handle), n_threads, _library.OWN_THREADS, None)

    def __del__(self):
        if self.handle:
            self.native.comet_native_destroy(self.handle)


@functools.lru_cache(maxsize=4)
def _session_of(n_threads, process):
    """A forked process needs sessions of its own."""
    return _Session(n_threads)


def _session(threads):
    """The session of a number of threads. Hold it during a call: others may push it out of the cache, which ends it."""
    most = max(64, 4 * (os.cpu_count() or 1))
    return _session_of(_whole(threads, 0, most, "threads"), os.getpid())


def _whole(value, least, most, what):
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value.__index__() <= most:
        fail(f"{what} is a whole number from {least} to {most}, not {value!r}")
    return value.__index__()


# ---- arrays ----


def _allocated(make, what):
    """The array that make() returns, or an error where there is no memory for it."""
    try:
        return make()
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than NumPy counts
        raise CometError(f"out of memory for {what}: {error}", "memory") from None


def _bfloat16():
    """The bfloat16 of ml_dtypes, or None where that is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)


def _type_of(array, type):
    """The type of an array's elements, as a word; uint16 is taken as the bits of bfloat16 where type says so."""
    if type is not None:
        look_up(TYPES, "type", type)
    dtype = array.dtype
    if dtype == np.uint16 and type == "bf16":
        return type
    found = next((name for name, known in _DTYPES.items() if known == dtype), None)
    if found is None and dtype.name == "bfloat16":
        found = "bf16"
    if found is None:
        fail(f"the array's elements are {dtype.str!r} ({dtype.name}); " + _advice_for(dtype))
    if type is not None and type != found:
        fail(f"the array's elements are {found}, not {type}")
    return found


def _advice_for(dtype):
    if dtype.newbyteorder() in _DTYPES.values():
        return f"convert them with array.astype({dtype.newbyteorder().str!r})"
    if dtype == np.uint16:
        return 'if they are bfloat16 bits, say so with type="bf16"'
    return 'float32, float16, float64, bfloat16 of ml_dtypes and, with type="bf16", uint16 can be compressed'


def _check_array(array):
    """The array in C order; a copy where it has another."""
    if not isinstance(array, np.ndarray):
        fail(f"a NumPy array is needed, not {type(array).__name__}")
    if array.ndim == 0:
        fail("the array has no dimension: compress array.reshape(1)")
    return _allocated(lambda: np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]), "a copy of the array in C order")


def _dims(layout, dims, shape):
    if dims is None:
        dims = dims_of_shape(layout, shape)
    else:
        dims = tuple(_whole(n, 0, _MOST_SEED, "a dimension") for n in dims)
        if (layout != "nchw" and len(dims) < 3) or memory_shape(layout, dims) != tuple(shape):
            fail(f"the array's shape {tuple(shape)} is not that of dims {dims} in layout {layout}")
    if len(dims) > _library.MAX_DIMS:
        fail(f"the array has {len(dims)} dimensions; {_library.MAX_DIMS} are the most")
    return dims


# ---- compress ----


def _job(eb, level, profile, dither, min_ratio, chunk, **flags):
    mode, bound = parse_bound(eb)
    job = Job(bound_mode=mode, bound=bound, level=look_up(LEVELS, "level", level), profile=look_up(PROFILES, "profile", profile),
              **flags)
    if dither is not None and dither is not False:
        job.dither, job.dither_seed = 1, 0 if dither is True else _whole(dither, 0, _MOST_SEED, "the seed of dither")
    if min_ratio is not None:
        if level != "auto" and mode != _library.RATIO:
            fail('min_ratio has no effect without level="auto"')
        if not 0 <= min_ratio <= _MOST_RATIO:
            fail(f"min_ratio is a number from 0 to {_MOST_RATIO:g}, not {min_ratio!r}")
        job.min_ratio = min_ratio
    if chunk is not None:
        job.chunk_elements = _whole(chunk, *_CHUNK_RANGE, "chunk")
    return job


def compress(array, eb, *, level="fast", type=None, layout="nchw", dims=None, keep_support=False, dither=None, checksum=True,
             min_ratio=None, chunk=None, profile="host", threads=0):
    """Compresses an array; the bytes are those that `comet compress` writes with the options of the same names.

    eb: largest error of an element: 0.01 (a number, or as text) absolute, "1e-3rel" of the value range, "0.1std" of the standard
        deviation, "lossless", or "12x" for the smallest bound found that reaches this ratio
    level: "fast", "dense" or "auto"
    type: "bf16" where the array holds the bits of bfloat16 as uint16; else not needed
    layout: how the array lies in memory: "nchw", "nhwc", "nChw8c", "nChw16c"
    dims: N,C,H,W where C is not a multiple of a blocked layout's 8 or 16
    keep_support: values come back as zero exactly where they are zero
    dither: a seed, or True for 0: random rounding, so that errors do not depend on the data; zeros may move
    checksum: of every chunk, to detect damage
    min_ratio: with level "auto", a chunk is coded fast where fast reaches this ratio
    chunk: elements in a chunk, 64 to 16777216; None: by level and shape
    profile: "host", or "device": small pieces for the groups of a GPU; any decoder reads them
    threads: 0: one per core; the bytes are the same for any number

    Arrays of float32, float16, float64 and ml_dtypes.bfloat16, little-endian. One that is not in C order is copied first.
    """
    array = _check_array(array)
    job = _job(eb, level, profile, dither, min_ratio, chunk, keep_support=bool(keep_support), checksum=bool(checksum))
    job.layout = look_up(LAYOUTS, "layout", layout)
    job.dtype = TYPES[_type_of(array, type)]
    dims = _dims(layout, dims, array.shape)
    job.n_dims = len(dims)
    job.dims[:len(dims)] = dims
    capacity, length = ctypes.c_size_t(), ctypes.c_size_t()
    native().comet_native_sizes(ctypes.byref(job), None, ctypes.byref(capacity))
    frame = _allocated(lambda: np.empty(capacity.value, np.uint8), "the frame")
    session = _session(threads)
    native().comet_native_compress(session.handle, ctypes.byref(job), array.ctypes.data, frame.ctypes.data, capacity,
                                   ctypes.byref(length))
    return frame[:length.value].tobytes()


# ---- frames ----


def _bytes_of(frame):
    """The bytes of a frame as an array, without a copy."""
    try:
        return np.frombuffer(frame, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        fail(f"a frame is bytes or another contiguous buffer, not {type(frame).__name__}: {error}")


def _describe(frame):
    """The header of a frame, which must be there to its last byte."""
    data, header = _bytes_of(frame), Frame()
    native().comet_native_describe(data.ctypes.data, data.size, ctypes.byref(header))
    if data.size != header.frame_bytes:
        what = "truncated" if data.size < header.frame_bytes else "bytes left over at the end"
        raise CometError(f"{what}: the frame has {header.frame_bytes} bytes, {data.size} are given", "corrupt")
    return data, header


def _element_type(header, bits):
    name = name_of(TYPES, header.dtype)
    if name != "bf16":
        return _DTYPES[name]
    if bits:
        return np.dtype(np.uint16)
    dtype = _bfloat16()
    if dtype is None:
        raise CometError("the frame's elements are bfloat16, for which ml_dtypes is not installed: install it, or take their bits as "
                         "uint16 with bits=True", "unsupported")
    return dtype


def _decode(data, header, dtype, threads):
    layout = name_of(LAYOUTS, header.layout)
    array = _allocated(lambda: np.empty(memory_shape(layout, header.dims[:header.n_dims]), dtype), "the array")
    session, length = _session(threads), ctypes.c_size_t()
    native().comet_native_decompress(session.handle, data.ctypes.data, data.size, array.ctypes.data, array.nbytes,
                                     ctypes.byref(length))
    return array


def decompress(frame, *, bits=False, threads=0):
    """The array of a frame, in its shape in memory. bits: bfloat16 comes as uint16, as the program writes it."""
    data, header = _describe(frame)
    return _decode(data, header, _element_type(header, bits), threads)


def info(frame):
    """What a frame's header says, as a dict with the keys of `comet info --json`."""
    _, header = _describe(frame)
    return {
        "version": header.version,
        "dims": list(header.dims[:header.n_dims]),
        "dtype": name_of(TYPES, header.dtype),
        "layout": name_of(LAYOUTS, header.layout),
        "eb": header.eb,
        "lossless": bool(header.lossless),
        "level": name_of(LEVELS, header.level),
        "profile": name_of(PROFILES, header.profile),
        "keep_support": bool(header.keep_support),
        "dither": bool(header.dither),
        "dither_seed": header.dither_seed,
        "content_checksum": bool(header.checksum),
        "n_elements": header.n_elements,
        "tensor_bytes": header.tensor_bytes,
        "frame_bytes": header.frame_bytes,
        "ratio": header.tensor_bytes / header.frame_bytes,
        "chunk_elements": header.chunk_elements,
        "n_chunks": header.n_chunks,
        "header_bytes": header.header_bytes,
    }


# ---- verify ----


def _bound_to_check(eb, header):
    if eb is None:
        return header.eb
    mode, value = parse_bound(eb)
    if mode not in (_library.ABSOLUTE, _library.LOSSLESS):
        fail(f"{eb!r} is not an absolute bound")
    return min(value, header.eb)


def _check_original(original, header):
    original = _check_array(original)
    layout, expected = name_of(LAYOUTS, header.layout), name_of(TYPES, header.dtype)
    shape = memory_shape(layout, header.dims[:header.n_dims])
    found = _type_of(original, "bf16" if original.dtype == np.uint16 else None)
    if found != expected or original.shape != shape:
        fail(f"the original is {found} of shape {original.shape}, the frame's array {expected} of shape {shape}")
    return original


def _values(array, is_bf16):
    """Elements as doubles; bfloat16 is the upper half of a float32."""
    if is_bf16:
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def _violation(seen, header, original, decoded):
    index, is_bf16 = seen.first_violation, header.dtype == _library.BF16
    layout = name_of(LAYOUTS, header.layout)
    place = tuple(int(i) for i in np.unravel_index(index, original.shape))
    pair = _values(np.stack([original.reshape(-1)[index:index + 1], decoded.reshape(-1)[index:index + 1]]), is_bf16)
    return {"first_violation": index, "coordinates": list(place_of(layout, place)), "original": float(pair[0, 0]),
            "decoded": float(pair[1, 0])}


def verify(original, frame, *, eb=None, threads=0):
    """Compares a frame with its original, as a dict with the keys of `comet verify --json`; `ok` is the verdict.

    eb: an absolute bound to check, if it is stricter than the frame's own.
    """
    data, header = _describe(frame)
    original = _check_original(original, header)
    bound = _bound_to_check(eb, header)
    decoded = _decode(data, header, original.dtype, threads)
    seen = Comparison()
    native().comet_native_compare(header.dtype, header.n_elements, original.ctypes.data, decoded.ctypes.data, bound,
                                  ctypes.byref(seen))
    zeros_ok = header.dither or seen.n_zeros_kept == seen.n_zeros
    support_ok = not header.keep_support or seen.n_support_lost == 0
    result = {"ok": bool(seen.n_violations == 0 and zeros_ok and support_ok), "n_elements": seen.n_elements, "eb": bound,
              "max_error": seen.max_error, "rmse": seen.rmse, "psnr": seen.psnr, "n_violations": seen.n_violations,
              "first_violation": None}
    if seen.n_violations:
        result.update(_violation(seen, header, original, decoded))
    result.update(n_zeros=seen.n_zeros, n_zeros_kept=seen.n_zeros_kept, n_support=seen.n_support_lost)
    return result
