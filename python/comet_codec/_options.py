"""Options as on the command line: bounds, types, levels and layouts in words, and shapes in memory."""

import math
import numbers
import re

from . import _library
from ._library import CometError

BOUND_FORMS = "0.01, 1e-3rel, 0.1std, lossless or 12x"
TYPES = {"f32": _library.F32, "f16": _library.F16, "bf16": _library.BF16, "f64": _library.F64}
LEVELS = {"fast": _library.FAST, "dense": _library.DENSE, "auto": _library.AUTO}
PROFILES = {"host": _library.HOST, "device": _library.DEVICE}
LAYOUTS = {"nchw": _library.PLANAR, "nhwc": _library.CHANNELS_LAST, "nChw8c": _library.BLOCKED8, "nChw16c": _library.BLOCKED16}
BLOCKS = {"nchw": 1, "nhwc": 1, "nChw8c": 8, "nChw16c": 16}

_UNITS = {"": _library.ABSOLUTE, "rel": _library.RANGE, "std": _library.STDDEV, "x": _library.RATIO}
_SMALLEST_NORMAL = 2.2250738585072014e-308


def fail(sentence):
    raise CometError(sentence, "argument")


def look_up(table, what, word):
    """The number of a word, or an error that lists the words."""
    try:
        return table[word]
    except (KeyError, TypeError):
        *most, last = table
        fail(f"unknown {what} {word!r}; choose {', '.join(most)} or {last}")


def name_of(table, number):
    return next((name for name, value in table.items() if value == number), "unknown")


def parse_bound(eb):
    """(bound mode, value) of a number, which is absolute, or of a text such as "0.1std"."""
    if isinstance(eb, numbers.Real) and not isinstance(eb, bool):
        unit, value, zero = "", float(eb), eb == 0
    elif eb == "lossless":
        return _library.LOSSLESS, 0.0
    else:
        found = re.fullmatch(r"([0-9+.eE][0-9+\-.eE]*?)(rel|std|x|)", eb) if isinstance(eb, str) else None
        if not found or not re.fullmatch(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", found[1]):
            fail(f"{eb!r} is not a bound: write {BOUND_FORMS}, finite and not negative")
        unit, value, zero = found[2], float(found[1]), not re.search("[1-9]", re.split("[eE]", found[1])[0])
    if not math.isfinite(value) or value < 0:
        fail(f"{eb!r} is not a bound: write {BOUND_FORMS}, finite and not negative")
    if unit == "x" and value < 1:
        fail(f"{eb!r} is out of range: a ratio is 1 or more")
    if not zero and value < _SMALLEST_NORMAL:
        fail(f"{eb!r} is too small for a double; use lossless")
    return _UNITS[unit], value


def dims_of_shape(layout, shape):
    """The dims (.., C, H, W) of an array in memory, with C a multiple of the block."""
    block, shape, given = BLOCKS[layout], tuple(shape), tuple(shape)
    if layout == "nchw":
        return shape
    if block > 1:
        if len(shape) < 4 or shape[-1] != block:
            fail(f"shape {given} is not one of layout {layout}: (.., C/{block}, H, W, {block})")
        return shape[:-4] + (shape[-4] * block,) + shape[-3:-1]
    if len(shape) < 3:
        fail(f"shape {given} is not one of layout nhwc: (.., H, W, C)")
    return shape[:-3] + (shape[-1],) + shape[-3:-1]


def memory_shape(layout, dims):
    """The shape in memory of a tensor with dims (.., C, H, W)."""
    dims, block = tuple(dims), BLOCKS[layout]
    if layout == "nchw":
        return dims
    if block > 1:
        return dims[:-3] + (-(-dims[-3] // block),) + dims[-2:] + (block,)
    return dims[:-3] + dims[-2:] + (dims[-3],)


def place_of(layout, place):
    """The coordinates (.., C, H, W) of an element, from its place in memory."""
    block = BLOCKS[layout]
    if layout == "nchw":
        return place
    if block > 1:
        return place[:-4] + (place[-4] * block + place[-1],) + place[-3:-1]
    return place[:-3] + (place[-1],) + place[-3:-1]
