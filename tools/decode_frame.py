#!/usr/bin/env python3
"""Decodes a Comet frame: docs/format.md as a program, written from that page alone.

usage: tools/decode_frame.py FRAME [-o OUT.raw] [--info] [--stats]

Writes the elements in memory order, little-endian and without a header, to OUT.raw or standard output. --info prints the
fields of the frame's header and --stats a line for every chunk; with either of them elements are written only where -o
says. Exit codes: 0 ok, 1 a file cannot be read or written, 2 usage, 3 the frame is damaged or of an unknown version.

It needs Python 3.9 and nothing else, and is made to be read; `comet decompress` is about a thousand times faster. The
sections named in the comments are those of docs/format.md.
"""
import argparse
import math
import struct
import sys
from bisect import bisect_right
from typing import NamedTuple

MODES = ("raw", "fast", "dense", "parts")
PREDICTORS = ("none", "left", "up", "lorenzo", "median", "linear", "wave", "volume")
LAYOUTS = ("planar", "channels last", "blocked by 8", "blocked by 16")
LEVELS = ("fast", "dense", "auto")
PROFILES = ("host", "device")
CODE_WIDTHS = (16, 32, 64)

LOSSLESS, KEEP_SUPPORT, DITHER, CHUNK_CHECKSUMS = 1, 2, 4, 8
FLAGS = ((LOSSLESS, "lossless"), (KEEP_SUPPORT, "keep support"), (DITHER, "dither"), (CHUNK_CHECKSUMS, "chunk checksums"))

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1


class Damaged(Exception):
    """The frame is not one, or not as its writer made it."""


def require(condition, message):
    if not condition:
        raise Damaged(message)


def ceil_div(a, b):
    return -(-a // b)


def round_up(a, multiple):
    return ceil_div(a, multiple) * multiple


def as_signed(value, width):
    """The integer of `width` bits, signed, that equals value modulo 2^width."""
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


# ---- reading bytes and bits ----


class ByteReader:
    """Takes little-endian numbers off a run of bytes, from the front."""

    def __init__(self, data, what):
        self.data = data
        self.what = what
        self.at = 0

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        require(count <= self.left(), f"{self.what}: {count} bytes wanted at {self.at}, {self.left()} there")
        self.at += count
        return self.data[self.at - count:self.at]

    def take_last(self, count):
        """Takes bytes off the end instead."""
        require(count <= self.left(), f"{self.what}: {count} bytes wanted at the end, {self.left()} left")
        keep = len(self.data) - count
        taken, self.data = self.data[keep:], self.data[:keep]
        return taken

    def rest(self):
        return self.take(self.left())

    def numbers(self, code, count):
        """`count` numbers of a struct type: B, H, I, Q for u8 to u64; h, i signed; d for f64."""
        return struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}")))

    def number(self, code):
        return self.numbers(code, 1)[0]


class BitReader:
    """Takes numbers off a bit stream, least significant bit first."""

    def __init__(self, data, what):
        self.data = data
        self.what = what
        self.at = 0  # in bits

    def take(self, count):
        end = self.at + count
        require(end <= 8 * len(self.data), f"{self.what}: the bit stream ends too early")
        window = int.from_bytes(self.data[self.at >> 3:(end + 7) >> 3], "little")
        value = (window >> (self.at & 7)) & ((1 << count) - 1)
        self.at = end
        return value

    def bytes_left(self):
        return len(self.data) - ceil_div(self.at, 8)

    def elias_gamma(self):
        return self.exp_golomb(0) + 1

    def exp_golomb(self, order):
        zeros = 0
        while self.take(1) == 0:
            zeros += 1
        return (1 << order + zeros) + self.take(order + zeros) - (1 << order)


# ---- XXH64, seed 0 ----

PRIME1 = 0x9E3779B185EBCA87
PRIME2 = 0xC2B2AE3D27D4EB4F
PRIME3 = 0x165667B19E3779F9
PRIME4 = 0x85EBCA77C2B2AE63
PRIME5 = 0x27D4EB2F165667C5


def rotate_left(x, count):
    return ((x << count) | (x >> (64 - count))) & MASK64


def xxh64_round(accumulator, lane):
    return rotate_left((accumulator + lane * PRIME2) & MASK64, 31) * PRIME1 & MASK64


def xxh64_stripes(data):
    """What the whole 32-byte stripes come to."""
    lanes = [(PRIME1 + PRIME2) & MASK64, PRIME2, 0, -PRIME1 & MASK64]
    for words in struct.iter_unpack("<4Q", data):
        lanes = [xxh64_round(lane, word) for lane, word in zip(lanes, words)]
    h = sum(rotate_left(lane, count) for lane, count in zip(lanes, (1, 7, 12, 18))) & MASK64
    for lane in lanes:
        h = ((h ^ xxh64_round(0, lane)) * PRIME1 + PRIME4) & MASK64
    return h


def xxh64_tail(h, reader):
    """Mixes in the last 0 to 31 bytes: 8, then 4, then 1 at a time."""
    while reader.left() >= 8:
        h = (rotate_left(h ^ xxh64_round(0, reader.number("Q")), 27) * PRIME1 + PRIME4) & MASK64
    if reader.left() >= 4:
        h = (rotate_left(h ^ (reader.number("I") * PRIME1 & MASK64), 23) * PRIME2 + PRIME3) & MASK64
    while reader.left() > 0:
        h = rotate_left(h ^ (reader.number("B") * PRIME5 & MASK64), 11) * PRIME1 & MASK64
    return h


def xxh64(data):
    reader = ByteReader(data, "checksum")
    striped = reader.take(len(data) // 32 * 32)
    h = xxh64_stripes(striped) if striped else PRIME5
    h = xxh64_tail((h + len(data)) & MASK64, reader)
    h = (h ^ (h >> 33)) * PRIME2 & MASK64
    h = (h ^ (h >> 29)) * PRIME3 & MASK64
    return h ^ (h >> 32)


# ---- element types: bit patterns, and floats rounded to them ----


def pack_float(code, x):
    """Bytes of x rounded to nearest even; struct raises where the rounded value is infinite."""
    try:
        return struct.pack("<" + code, x)
    except OverflowError:
        return struct.pack("<" + code, math.copysign(math.inf, x))


def f32_bits(x):
    return struct.unpack("<I", pack_float("f", x))[0]


def f32_from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def round_to_f32(x):
    """x as an f32. Sums and products of two f32 are exact in Python's f64 here, so this is their only rounding."""
    return f32_from_bits(f32_bits(x))


def f16_bits(x):
    return struct.unpack("<H", pack_float("e", x))[0]


def f16_from_bits(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def bf16_bits(x):
    """The upper half of an f32 (never a NaN here), rounded to nearest even by the lower half."""
    bits = f32_bits(x)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bf16_from_bits(bits):
    return f32_from_bits(bits << 16)


def f64_bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def f64_from_bits(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


class ElementType(NamedTuple):
    name: str
    bits: int  # of one element
    code: str  # struct type of its bit pattern
    largest_bound: float
    arithmetic: object  # rounds the result of one operation
    to_bits: object  # rounds a value to the type
    from_bits: object

    def size(self):
        return self.bits // 8

    def round_down(self, x):
        """x >= 0 rounded towards 0; the patterns of numbers from 0 up are in the numbers' order."""
        bits = self.to_bits(x)
        return self.from_bits(bits if self.from_bits(bits) <= x else bits - 1)


ELEMENT_TYPES = (
    ElementType("f32", 32, "I", 2.0**120, round_to_f32, f32_bits, f32_from_bits),
    ElementType("f16", 16, "H", 32768.0, round_to_f32, f16_bits, f16_from_bits),
    ElementType("bf16", 16, "H", 2.0**120, round_to_f32, bf16_bits, bf16_from_bits),
    ElementType("f64", 64, "Q", 2.0**1000, float, f64_bits, f64_from_bits),
)


# ---- section 1: header and index ----


class Header(NamedTuple):
    element_type: ElementType
    layout: int
    flags: int
    level: int
    profile: str
    bound: float
    seed: int
    n_elements: int
    chunk_elements: int
    n_chunks: int
    frame_bytes: int
    dims: tuple

    def chunk_size(self, chunk):
        """Elements of a chunk."""
        return min(self.chunk_elements, self.n_elements - chunk * self.chunk_elements)


def header_extent(reader):
    """Number of dims, once magic, version, size and checksum are found right."""
    data = reader.data
    require(data[:4] == b"COMT", "not a Comet frame: it does not start with COMT")
    version, header_bytes, n_dims = struct.unpack_from("<HH2xB", reader.take(16), 4)
    require(version == 3, f"version {version}, and this decoder knows only version 3")
    require(1 <= n_dims <= 8, f"header: {n_dims} dims")
    require(header_bytes == 72 + 8 * n_dims, f"header: {header_bytes} bytes for {n_dims} dims")
    require(len(data) >= header_bytes, f"header: {header_bytes} bytes, {len(data)} there")
    stored = struct.unpack_from("<Q", data, header_bytes - 8)[0]
    require(stored == xxh64(data[:header_bytes - 8]), "header: wrong checksum")
    return n_dims


def read_header(reader):
    n_dims = header_extent(reader)
    element_type, layout, _, flags, level, profile = reader.data[8:14]
    require(element_type < len(ELEMENT_TYPES), f"header: element type {element_type}")
    require(level < len(LEVELS), f"header: level {level}")
    require(flags <= 15, f"header: flags {flags}")
    require(profile < len(PROFILES), f"header: profile {profile}")
    require(reader.data[14:16] == bytes(2), "header: bytes 14 and 15 are not 0")
    bound = reader.number("d")
    numbers = reader.numbers("Q", 5)
    dims = reader.numbers("Q", n_dims)
    reader.take(8)  # the checksum
    header = Header(ELEMENT_TYPES[element_type], layout, flags, level, PROFILES[profile], bound, *numbers, dims)
    check_header(header, len(reader.data))
    return header


def check_header(header, file_bytes):
    """The fields that say something about each other do agree."""
    require(header.layout < len(LAYOUTS), f"header: layout {header.layout}")
    require(header.layout == 0 or len(header.dims) >= 3, f"header: {len(header.dims)} dims with layout {header.layout}")
    lossless = header.flags & LOSSLESS != 0
    require(math.isfinite(header.bound) and header.bound >= 0, f"header: error bound {header.bound}")
    require((header.bound == 0) == lossless, f"header: error bound {header.bound} with flags {header.flags}")
    require(header.flags & (KEEP_SUPPORT | DITHER) != KEEP_SUPPORT | DITHER, "header: keep support together with dither")
    n_elements = elements_of(header.dims, header.layout)
    require(header.n_elements == n_elements, f"header: {header.n_elements} elements, the dims make {n_elements}")
    level = LEVELS[header.level]
    require(header.profile == "host" or level != "auto", f"header: level {level}, profile {header.profile}")
    most = 2**24 if header.profile == "host" else 8192 if level == "fast" else 2**18
    require(64 <= header.chunk_elements <= most, f"header: {header.chunk_elements} elements a chunk, {level}, {header.profile}")
    n_chunks = ceil_div(header.n_elements, header.chunk_elements)
    require(header.n_chunks == n_chunks, f"header: {header.n_chunks} chunks, not {n_chunks}")
    require(header.frame_bytes == file_bytes, f"the frame has {header.frame_bytes} bytes, {file_bytes} are there")


def elements_of(dims, layout):
    dims = list(dims)
    if layout >= 2:
        dims[-3] = round_up(dims[-3], block_of(layout))
    return math.prod(dims)


def block_of(layout):
    return {2: 8, 3: 16}[layout]


def read_index(reader, header):
    """A list of (bytes of payload, low half of its checksum)."""
    entries = reader.take(8 * header.n_chunks)
    require(reader.number("Q") == xxh64(entries), "index: wrong checksum")
    return list(struct.iter_unpack("<II", entries))


def read_payloads(reader, header, index):
    """A list of the chunks' payloads, checksums checked where there are any."""
    payloads = []
    for chunk, (size, checksum) in enumerate(index):
        payload = reader.take(size)
        if header.flags & CHUNK_CHECKSUMS:
            require(xxh64(payload) & MASK32 == checksum, f"chunk {chunk}: wrong checksum")
        payloads.append(payload)
    require(reader.left() == 0, f"{reader.left()} bytes after the last chunk")
    return payloads


# ---- section 2: geometry ----


class Geometry(NamedTuple):
    channels: int
    columns: int
    lines: int

    def line(self):
        return self.channels * self.columns


def geometry_of(header):
    dims = header.dims
    if header.layout == 0:
        channels = 1
    else:
        channels = dims[-3] if header.layout == 1 else block_of(header.layout)
    columns = dims[-1]
    lines = dims[-2] if len(dims) > 1 else 1
    if channels > 16384 or columns > 2**18 // channels:
        return Geometry(1, 4096, 1)
    return Geometry(channels, columns, lines)


# ---- section 3: payload ----


class Chunk(NamedTuple):
    """What the parts of a payload are decoded with."""
    header: Header
    geometry: Geometry
    number: int
    n: int  # elements
    width: int  # of the codes, in bits
    predictor: str
    signed: bool  # residuals are not zigzagged
    nonzero: bool  # code 0 stands for a number above 0
    stats: dict  # what was met, for --stats

    def residual(self, z):
        """The residual r of z, which counts modulo 2^width."""
        z &= (1 << self.width) - 1
        if self.signed:
            return as_signed(z, self.width)
        return -(z + 1) // 2 if z & 1 else z // 2


def decode_chunk(header, number, payload, stats):
    """The elements of a chunk, as bytes."""
    n = header.chunk_size(number)
    reader = ByteReader(payload, f"chunk {number}")
    mode, width, predictor, options = reader.numbers("B", 4)
    require(mode < len(MODES), f"chunk {number}: mode {mode}")
    stats["mode"] = MODES[mode]
    if MODES[mode] == "raw":
        require((width, predictor, options) == (0, 0, 0), f"chunk {number}: bytes 1 to 3 of a raw chunk are not 0")
        return decode_raw(header, n, reader)
    require(width < len(CODE_WIDTHS), f"chunk {number}: code width {width}")
    require(predictor < len(PREDICTORS), f"chunk {number}: predictor {predictor}")
    require(options < 4, f"chunk {number}: byte 3 is {options}")
    signed, nonzero = options & 1, options >> 1
    chunk = Chunk(header, geometry_of(header), number, n, CODE_WIDTHS[width], PREDICTORS[predictor], signed == 1, nonzero == 1, stats)
    check_chunk(chunk, MODES[mode])
    stats.update(width=chunk.width, predictor=chunk.predictor, signed=signed, nonzero=nonzero)
    return decode_coded(chunk, MODES[mode], reader)


def decode_raw(header, n, reader):
    elements = reader.take(n * header.element_type.size())
    require(reader.left() == 0, f"{reader.what}: {reader.left()} bytes after the raw elements")
    return elements


def check_chunk(chunk, mode):
    """Mode, width, predictor and byte 3 go together."""
    lossless = chunk.header.flags & LOSSLESS
    if lossless:
        widths = (64,) if chunk.header.element_type.bits == 64 else (32,)
    else:
        widths = (16, 32)
    require(chunk.width in widths, f"chunk {chunk.number}: codes of {chunk.width} bits")
    require(mode == "fast" or chunk.width < 64, f"chunk {chunk.number}: dense codes of 64 bits")
    profile, level = chunk.header.profile, LEVELS[chunk.header.level]
    may_be = ("fast", "dense") if profile == "host" else ("fast",) if level == "fast" else ("parts",)
    require(mode in may_be, f"chunk {chunk.number}: mode {mode}, profile {profile}, level {level}")
    never = {"fast": ["median", "wave", "volume"], "dense": ["up"], "parts": ["up", "linear", "volume"]}[mode]
    if mode == "dense" and (lossless or not wave_suits(chunk)):
        never += ["wave", "volume"]
    if chunk.width == 64:
        never.append("linear")
    require(chunk.predictor not in never, f"chunk {chunk.number}: predictor {chunk.predictor}, {mode}, {chunk.width} bits")
    may_be_signed = chunk.predictor == "none" or (mode == "fast" and chunk.predictor == "linear")
    require(may_be_signed or not chunk.signed, f"chunk {chunk.number}: not zigzagged, predictor {chunk.predictor}")
    may_be_nonzero = chunk.header.flags & KEEP_SUPPORT and not lossless
    require(may_be_nonzero or not chunk.nonzero, f"chunk {chunk.number}: without zeros, yet support is not kept")


def decode_coded(chunk, mode, reader):
    n_outliers, outlier_bytes = reader.numbers("I", 2)
    planes = read_planes(chunk, reader) if chunk.predictor == "linear" else []
    require(outlier_bytes <= reader.left(), f"{reader.what}: {outlier_bytes} bytes of outliers, {reader.left()} left")
    body = ByteReader(reader.take(reader.left() - outlier_bytes), reader.what)
    codes = {"fast": decode_fast, "dense": decode_dense, "parts": decode_parts}[mode](chunk, body)
    add_planes(chunk, planes, codes)
    patterns = lossless_patterns(chunk, codes) if chunk.header.flags & LOSSLESS else lossy_patterns(chunk, codes)
    chunk.stats["outliers"] = n_outliers
    place_outliers(chunk, n_outliers, reader, patterns)
    return struct.pack(f"<{chunk.n}{chunk.header.element_type.code}", *patterns)


def place_outliers(chunk, count, reader, patterns):
    element_type = chunk.header.element_type
    n_steps = reader.left() - count * element_type.size()
    require(n_steps >= 0, f"{reader.what}: {count} outliers in {reader.left()} bytes")
    places = []
    cursor = 0
    step = 0
    for step in reader.take(n_steps):
        if step < 128:
            places.append(cursor + step)
            cursor += step + 1
        else:
            cursor += 128 * (step - 127)
    require(len(places) == count and step < 128, f"{reader.what}: steps to {len(places)} outliers of {count}")
    require(not places or places[-1] < chunk.n, f"{reader.what}: an outlier after the chunk's {chunk.n} elements")
    for place, pattern in zip(places, reader.numbers(element_type.code, count)):
        patterns[place] = pattern


# ---- section 4: codes to elements ----


def lossless_patterns(chunk, codes):
    bits = chunk.header.element_type.bits
    patterns = []
    for code in codes:
        v = as_signed(code, bits)
        if v < 0:
            v ^= (1 << (bits - 1)) - 1
        patterns.append(v & ((1 << bits) - 1))
    return patterns


def lossy_patterns(chunk, codes):
    element_type = chunk.header.element_type
    bound = element_type.round_down(min(chunk.header.bound, element_type.largest_bound))
    value = value_of_code(chunk, bound)
    return [element_type.to_bits(value(i, code)) for i, code in enumerate(codes)]


def value_of_code(chunk, bound):
    """The function of (element, code) that gives the element's value. `rounded` follows every operation."""
    flags = chunk.header.flags
    rounded = chunk.header.element_type.arithmetic
    smaller = chunk.header.element_type.name == "f32" and not flags & DITHER
    step = rounded((2 - 2.0**-7) * bound) if smaller else 2 * bound
    key = dither_key(chunk.header.seed, chunk.number)

    def plain(_, c):
        return rounded(rounded(c) * step)

    def keep_support(_, c):
        if chunk.nonzero and c >= 0:
            c += 1
        if c == 0:
            return 0.0
        return rounded(rounded(2 * c - 1 if c > 0 else 2 * c + 1) * (step / 2))

    def dithered(i, c):
        return rounded(rounded(rounded(c) - dither(key, i)) * step)

    if flags & DITHER:
        return dithered
    return keep_support if flags & KEEP_SUPPORT else plain


def dither_key(seed, chunk_number):
    k = (seed + (chunk_number + 1) * 0x9E3779B97F4A7C15) & MASK64
    k = (k ^ (k >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    k = (k ^ (k >> 27)) * 0x94D049BB133111EB & MASK64
    return k >> 32


def dither(key, i):
    """u(i), in [-1/2, 1/2)."""
    h = i ^ key
    h = (h ^ (h >> 16)) * 0x7FEB352D & MASK32
    h = (h ^ (h >> 15)) * 0x846CA68B & MASK32
    h ^= h >> 16
    return ((h >> 8) - 2**23) * 2.0**-24


# ---- section 5: fast codes ----


class Shape(NamedTuple):
    """How a block of 64 values is written."""
    width: int  # bits a value
    bitmap: bool


def decode_fast(chunk, reader):
    n_blocks = ceil_div(chunk.n, 64)
    pairs = reader.take(ceil_div(n_blocks, 2))
    kinds = [half for pair in pairs for half in (pair & 15, pair >> 4)]
    require(not any(kinds[n_blocks:]), f"{reader.what}: the half byte after the last kind is not 0")
    kinds = kinds[:n_blocks]
    chunk.stats["kinds"] = sorted(set(kinds))
    shapes, maps = read_shapes(chunk, kinds, reader)
    zs = []
    for shape in shapes:
        zs += decode_block(shape, maps, reader)
    require(reader.left() == 0, f"{reader.what}: {reader.left()} bytes left over")
    return add_predictions(chunk, [chunk.residual(z) for z in zs[:chunk.n]])


def read_shapes(chunk, kinds, reader):
    """The shapes of the blocks and an iterator over their maps; takes wide bytes and maps off the end of what is left."""
    n_wide = kinds.count(15)
    wide_bytes = iter(reversed(reader.take_last(n_wide)))
    shapes = [shape_of(chunk, kind, wide_bytes) for kind in kinds]
    n_maps = sum(shape.bitmap for shape in shapes)
    return shapes, (map_bits for map_bits, in struct.iter_unpack("<Q", reader.take_last(8 * n_maps)))


def shape_of(chunk, kind, wide_bytes):
    if kind <= 6:
        return Shape(kind, kind > 0)
    if kind <= 14:
        return Shape(kind - 6, False)
    byte = next(wide_bytes)
    require(byte & 127 <= chunk.width, f"chunk {chunk.number}: a block of {byte & 127} bits a value")
    return Shape(byte & 127, byte >= 128)


def decode_block(shape, maps, reader):
    """The 64 values z of a block."""
    if not shape.bitmap:
        return read_values(reader, 64, shape.width)
    places = [j for j, bit in enumerate(bits_of(next(maps), 64)) if bit]
    zs = [0] * 64
    for place, value in zip(places, read_values(reader, len(places), shape.width)):
        zs[place] = value + 1
    return zs


def bits_of(value, count):
    return [value >> j & 1 for j in range(count)]


def read_values(reader, count, width):
    """The lowest 8 bits of all values, the next 8, and so on; each part in whole bytes."""
    values = [0] * count
    for shift in range(0, width, 8):
        bits = min(8, width - shift)
        part = BitReader(reader.take(ceil_div(count * bits, 8)), reader.what)
        for j in range(count):
            values[j] |= part.take(bits) << shift
    return values


def add_predictions(chunk, residuals):
    """Codes from residuals; elements before the chunk count as 0."""
    left, up = chunk.geometry.channels, chunk.geometry.line()
    # Distances to the neighbours that are added, and to the one that is taken off.
    added, taken = {"left": ([left], []), "up": ([up], []), "lorenzo": ([left, up], [left + up])}.get(chunk.predictor, ([], []))
    codes = []
    for i, code in enumerate(residuals):
        for distance in added:
            if distance <= i:
                code += codes[i - distance]
        for distance in taken:
            if distance <= i:
                code -= codes[i - distance]
        codes.append(as_signed(code, chunk.width))
    return codes


# ---- section 6: dense codes ----

N_CONTEXTS = 16
N_STATES = 64
TABLE_TOTAL = 1024  # sum of a context's frequencies
STATE_LOW = 65536  # states stay at or above this
# The least residual of each symbol, and the number of raw bits; the last symbol's residuals are among the escapes.
SYMBOLS = [(z, 0) for z in range(8)] + [(8, 2), (12, 2), (16, 3), (24, 4), (40, 5), (72, 5), (104, 6), (168, 0)]
ESCAPE = 15
CONTEXTS = ((0, 1, 1, 2), (3, 4, 5, 6), (7, 8, 9, 10), (7, 11, 12, 13), (7, 11, 12, 14), (7, 11, 12, 15))
GRADIENT_LEVELS = (1, 3, 6, 12, 24)
MAGNITUDE_LEVELS = (1, 2, 4)


class Lanes(NamedTuple):
    """How a chunk's codes lie in cells."""
    channels: int
    bands: int
    width: int  # lanes, those beyond bands x channels included
    columns: int
    rows: int
    period: int

    def element(self, row, column, lane):
        """The chunk's element in a cell."""
        band, channel = divmod(lane, self.channels)
        return (band * self.rows + row) * self.channels * self.columns + column * self.channels + channel


def bands_for(channels):
    if 64 % channels == 0:
        return 64 // channels
    bands = 1
    while 16 * (round_up(bands * channels, 64) - bands * channels) > bands * channels:
        bands += 1
    return bands


def arrange_lanes(chunk):
    channels, columns, lines = chunk.geometry
    too_wide = channels > chunk.n
    if too_wide:
        channels = 1
    bands = bands_for(channels)
    chunk_lines = ceil_div(chunk.n, channels * columns)
    if too_wide or 2 * chunk_lines <= bands:  # one run
        columns = ceil_div(chunk.n, bands * channels)
        rows = 1
    else:
        rows = ceil_div(chunk_lines, bands)
    whole_planes = chunk.header.chunk_elements % (chunk.geometry.line() * lines) == 0 and rows % lines == 0
    return Lanes(channels, bands, round_up(bands * channels, 64), columns, rows, lines if whole_planes else rows)


def decode_dense(chunk, reader):
    tables_bytes, escape_bytes = reader.numbers("I", 2)
    bits = BitReader(reader.take(tables_bytes), f"{reader.what}, tables")
    escapes = Escapes(bits.take(5), BitReader(reader.take(escape_bytes), f"{reader.what}, escapes"))
    tables = read_tables(bits)
    states = list(reader.numbers("I", N_STATES))
    require(reader.left() % 2 == 0, f"{reader.what}: half a word")
    words = reader.numbers("H", reader.left() // 2)
    coder = SymbolDecoder(tables, escapes, states, words, reader.what)
    if chunk.predictor in WAVE_CONTEXTS:
        padding = tables[WAVE_PADDING]
        require(padding is None or padding[0][1] == TABLE_TOTAL, f"{reader.what}: context {WAVE_PADDING} has other symbols than 0")
        codes = Wave(chunk, coder).decode()
    else:
        codes = decode_cells(chunk, arrange_lanes(chunk), coder)
    coder.check_end()
    chunk.stats["escapes"] = coder.n_escapes
    return codes


def read_tables(bits):
    """For each context a list with (symbol, frequency, start) for each of the 1024 slots, or None."""
    tables = []
    for _ in range(N_CONTEXTS):
        tables.append(read_table(bits) if bits.take(1) else None)
    return tables


def read_table(bits):
    slots = []
    last = bits.take(4)
    for symbol in range(last + 1):
        frequency = bits.elias_gamma() - 1
        require(len(slots) + frequency <= TABLE_TOTAL, f"{bits.what}: frequencies sum to more than {TABLE_TOTAL}")
        slots += [(symbol, frequency, len(slots))] * frequency
    require(len(slots) == TABLE_TOTAL, f"{bits.what}: frequencies sum to {len(slots)}")
    return slots


class Escapes(NamedTuple):
    """Residuals that are written apart."""
    order: int
    bits: BitReader


class SymbolDecoder:
    """The 64 states of the entropy coder, and what they feed on."""

    def __init__(self, tables, escapes, states, words, what):
        self.tables = tables
        self.escapes = escapes
        self.states = states
        self.words = words
        self.what = what
        self.next_word = 0
        self.n_escapes = 0

    def take(self, lane, context):
        """The residual z, zigzagged, of the next cell. A row has a multiple of 64 lanes, so cell j mod 64 is lane mod 64."""
        table = self.tables[context]
        require(table is not None, f"{self.what}: context {context} has no table")
        x = self.states[lane % N_STATES]
        slot = x % TABLE_TOTAL
        symbol, frequency, start = table[slot]
        least, n_raw = SYMBOLS[symbol]
        raw = x // TABLE_TOTAL % (1 << n_raw)
        x = frequency * (x // TABLE_TOTAL >> n_raw) + slot - start
        if x < STATE_LOW:
            x = x * 65536 + self.word()
        self.states[lane % N_STATES] = x
        return least + (self.escaped() if symbol == ESCAPE else raw)

    def word(self):
        require(self.next_word < len(self.words), f"{self.what}: too few words")
        self.next_word += 1
        return self.words[self.next_word - 1]

    def escaped(self):
        self.n_escapes += 1
        return self.escapes.bits.exp_golomb(self.escapes.order)

    def check_end(self):
        require(all(x == STATE_LOW for x in self.states), f"{self.what}: the states do not end as they should")
        require(self.next_word == len(self.words), f"{self.what}: {len(self.words) - self.next_word} words left over")
        require(self.escapes.bits.bytes_left() == 0, f"{self.what}: escapes left over")


def decode_cells(chunk, lanes, coder):
    codes = [0] * chunk.n
    zeros = [[0] * lanes.width] * lanes.columns
    cells = zeros
    for row in range(lanes.rows):
        above = zeros if row % lanes.period == 0 else cells
        cells = decode_row(chunk, above, coder)
        for column, values in enumerate(cells):
            for lane in range(lanes.bands * lanes.channels):
                element = lanes.element(row, column, lane)
                if element < chunk.n:
                    codes[element] = values[lane]
    return codes


def decode_row(chunk, above, coder):
    """The row's cells as a list of columns, each a list of lanes; `above` is the row above in the same form."""
    cells = []
    for column, n in enumerate(above):
        w = cells[column - 1] if column > 0 else n
        ww = cells[column - 2] if column > 1 else above[0]
        nw = above[column - 1] if column > 0 else n
        ne = above[column + 1] if column + 1 < len(above) else n
        cells.append(decode_column(chunk, zip(w, ww, n, nw, ne), coder))
    return cells


def decode_column(chunk, neighbours, coder):
    look = LOOK[chunk.predictor]
    codes = []
    for lane, around in enumerate(neighbours):
        prediction, gradient, magnitude = look(*around)
        context = CONTEXTS[bisect_right(GRADIENT_LEVELS, gradient)][bisect_right(MAGNITUDE_LEVELS, magnitude)]
        residual = chunk.residual(coder.take(lane, context))
        codes.append(as_signed(prediction + residual, chunk.width))
    return codes


def gradient_of(w, n, nw, ne):
    return abs(w - nw) + abs(n - nw) + abs(n - ne)


def look_none(w, _, n, nw, ne):
    return 0, gradient_of(w, n, nw, ne), abs(w + n)


def look_left(w, ww, _n, _nw, _ne):
    return w, 2 * abs(w - ww), abs(w)


def look_lorenzo(w, _, n, nw, ne):
    prediction = w + n - nw
    return prediction, gradient_of(w, n, nw, ne), abs(prediction)


def look_median(w, _, n, nw, ne):
    prediction = sorted((w, n, w + n - nw))[1]
    return prediction, gradient_of(w, n, nw, ne), abs(prediction)


# Prediction, gradient and magnitude from the neighbours W, WW, N, NW, NE.
LOOK = {"none": look_none, "linear": look_none, "left": look_left, "lorenzo": look_lorenzo, "median": look_median}


# ---- section 6: wave ----

WAVE_CONTEXTS = {
    "wave": (0, 2, 1, 6, 10, 10, 4, 7, 12, 12, 12, 12, 12, 11, 11, 14, 11, 14, 7, 3, 9, 9, 11, 6, 8, 4, 3, 7, 7, 3, 3, 9,
             11, 12, 6, 6, 7, 11, 14, 11, 14, 14, 14, 6, 7, 11, 11, 11, 6, 8, 5, 7, 6, 6, 7, 7, 9, 11, 12, 6, 6, 11, 13, 13),
    "volume": (0, 1, 6, 6, 9, 9, 8, 8, 3, 3, 2, 6, 2, 5, 8, 10, 10, 10, 12, 12, 8, 8, 10, 10, 12, 12, 4, 7, 10, 9, 4, 8,
               10, 10, 10, 4, 8, 7, 4, 4, 7, 13, 13, 14, 13, 14, 13, 13, 13, 13, 13, 13, 14, 9, 5, 13, 9, 9, 13, 13, 13, 14, 9, 11),
}


WAVE_PADDING = 15  # the context of lanes that are at no code


def wave_suits(chunk):
    channels, columns, _ = chunk.geometry
    return channels == 1 and columns >= 128 and chunk.n % columns == 0 and chunk.n // columns >= 32


def clip(v, most):
    return max(-most, min(most, v))


def median_of(a, b, c):
    return sorted((a, b, a + b - c))[1]


def wave_sum(w, n, nw, ne):
    return 25 * clip(w - nw, 2) + 5 * clip(n - nw, 2) + clip(ne - n, 2)


class Wave:
    """Lines of codes, decoded in the order in which the lanes come to them."""

    def __init__(self, chunk, coder):
        self.chunk = chunk
        self.coder = coder
        self.columns = chunk.geometry.columns
        self.rows = chunk.n // self.columns
        self.plane = min(chunk.geometry.lines, self.rows)
        self.codes = [[] for _ in range(self.rows)]  # as far as they are known

    def decode(self):
        period = self.columns + 2
        left = self.chunk.n
        step = 0
        while left > 0:
            for lane in range(N_STATES):
                strip, place = divmod(step - 2 * lane, period)
                line = N_STATES * strip + lane
                if step >= 2 * lane and line < self.rows and 1 <= place <= self.columns:
                    self.codes[line].append(self.code(lane, line, place - 1))
                    left -= 1
            step += 1
        return [code for line in self.codes for code in line]

    def value(self, line, column):
        """A code or padding."""
        if line < 0:
            return 0
        if column < 0:
            return self.value(line - 1, 0)
        return self.codes[line][min(column, self.columns - 1)]

    def around(self, line, column):
        """W, N, NW and NE."""
        return (self.value(line, column - 1), self.value(line - 1, column), self.value(line - 1, column - 1),
                self.value(line - 1, column + 1))

    def code(self, lane, line, column):
        w, n, nw, ne = self.around(line, column)
        prediction = median_of(w, n, nw)
        if self.chunk.predictor == "wave":
            v = wave_sum(w, n, nw, ne)
        else:
            before = line - self.plane
            a, b, c, e = (x - y for x, y in zip((w, n, nw, ne), self.around(before, column)))
            flat = prediction
            prediction = self.value(before, column) + median_of(a, b, c)
            v = 27 * clip(flat - prediction, 2) + 9 * clip(a - c, 1) + 3 * clip(b - c, 1) + clip(e - b, 1)
        context = WAVE_CONTEXTS[self.chunk.predictor][min(abs(v), 63)]
        residual = self.chunk.residual(self.coder.take(lane, context))
        return as_signed(prediction + (residual if v >= 0 else -residual), self.chunk.width)


# ---- section 7: codes in parts ----

PART_LANES = 32
PART_STATE_LOW = 4096
PART_STATE_BITS = 12


def decode_parts(chunk, reader):
    part_elements, tables_bytes = reader.numbers("I", 2)
    require(1 <= part_elements <= 12544, f"{reader.what}: parts of {part_elements} elements")
    bits = BitReader(reader.take(tables_bytes), f"{reader.what}, tables")
    order = bits.take(5)
    tables = read_tables(bits)
    sizes = reader.numbers("H", ceil_div(chunk.n, part_elements))
    codes = []
    chunk.stats["escapes"] = 0
    for k, size in enumerate(sizes):
        part = Part(chunk, min(part_elements, chunk.n - k * part_elements), f"{reader.what}, part {k}")
        codes += part.decode(BitReader(reader.take(size), part.what), tables, order)
    require(reader.left() == 0, f"{reader.what}: {reader.left()} bytes after the parts")
    return codes


class Cell(NamedTuple):
    tile: int
    row: int
    column: int


class Part:
    """m codes of a chunk in tiles."""

    def __init__(self, chunk, m, what):
        channels, columns, lines = chunk.geometry
        self.chunk, self.m, self.what = chunk, m, what
        if m % (channels * columns) == 0:
            rows = m // (channels * columns)
            self.height = lines if rows % lines == 0 else rows
        else:
            channels = 1 if m % channels else channels
            columns = 64
            self.height = rows = ceil_div(m // channels, columns)
        self.channels, self.columns = channels, columns
        self.per_channel = rows // self.height
        self.n_tiles = channels * self.per_channel
        self.side = max(1, 64 // columns)
        self.codes = [0] * m

    def element(self, cell):
        channel, tile = divmod(cell.tile, self.per_channel)
        return ((tile * self.height + cell.row) * self.columns + cell.column) * self.channels + channel

    def cell(self, line, place):
        """The cell at a place of a line, or None."""
        tile = line // self.height * self.side + place // self.columns
        cell = Cell(tile, line % self.height, place % self.columns)
        there = tile < self.n_tiles and place < self.side * self.columns and self.element(cell) < self.m
        return cell if there else None

    def steps(self):
        """For each step a list of (lane, cell)."""
        n_lines = ceil_div(self.n_tiles, self.side) * self.height
        period = max(self.side * self.columns, 64)
        for step in range(ceil_div(n_lines, PART_LANES) * period + 2 * PART_LANES):
            places = [(lane, divmod(step - 2 * lane, period)) for lane in range(PART_LANES) if step >= 2 * lane]
            cells = [(lane, self.cell(PART_LANES * strip + lane, place)) for lane, (strip, place) in places
                     if PART_LANES * strip + lane < n_lines]
            yield [(lane, cell) for lane, cell in cells if cell is not None]

    def value(self, cell, up, left):
        return self.codes[self.element(Cell(cell.tile, cell.row - up, cell.column - left))]

    def around(self, cell):
        """W, WW, N, NW, NE."""
        n = nw = ne = 0
        if cell.row > 0:
            n = self.value(cell, 1, 0)
            nw = self.value(cell, 1, 1) if cell.column > 0 else n
            ne = self.value(cell, 1, -1) if cell.column + 1 < self.columns else n
        w = self.value(cell, 0, 1) if cell.column > 0 else n
        ww = self.value(cell, 0, 2) if cell.column > 1 else nw
        return w, ww, n, nw, ne

    def look(self, cell):
        """The prediction, the context and the sign of the residual."""
        w, ww, n, nw, ne = self.around(cell)
        if self.chunk.predictor == "wave":
            v = wave_sum(w, n, nw, ne)
            return median_of(w, n, nw), WAVE_CONTEXTS["wave"][min(abs(v), 63)], -1 if v < 0 else 1
        prediction, gradient, magnitude = LOOK[self.chunk.predictor](w, ww, n, nw, ne)
        return prediction, CONTEXTS[bisect_right(GRADIENT_LEVELS, gradient)][bisect_right(MAGNITUDE_LEVELS, magnitude)], 1

    def put(self, cell, prediction, sign, z):
        self.codes[self.element(cell)] = as_signed(prediction + sign * self.chunk.residual(z), self.chunk.width)

    def decode(self, bits, tables, order):
        states = [PART_STATE_LOW + bits.take(PART_STATE_BITS) for _ in range(PART_LANES)]
        for cells in self.steps():
            escaped = []
            for lane, cell in cells:
                prediction, context, sign = self.look(cell)
                require(tables[context] is not None, f"{self.what}: context {context} has no table")
                slot = states[lane] % TABLE_TOTAL
                symbol, frequency, start = tables[context][slot]
                x = frequency * (states[lane] // TABLE_TOTAL) + slot - start
                k = PART_STATE_BITS + 1 - x.bit_length()
                states[lane] = (x << k) + bits.take(k)
                least, n_raw = SYMBOLS[symbol]
                self.put(cell, prediction, sign, least + bits.take(n_raw))
                if symbol == ESCAPE:
                    escaped.append((cell, prediction, sign))
            for cell, prediction, sign in escaped:
                self.put(cell, prediction, sign, SYMBOLS[ESCAPE][0] + bits.exp_golomb(order))
            self.chunk.stats["escapes"] += len(escaped)
        require(all(x == PART_STATE_LOW for x in states), f"{self.what}: the states do not end as they should")
        require(bits.bytes_left() == 0 and bits.take(-bits.at % 8) == 0, f"{self.what}: bits left over")
        return self.codes


# ---- section 8: planes of a linear fit ----

TILE = 16  # lines, and positions


def tiles_of(chunk):
    """Tiles down, across and of channels."""
    channels, columns, _ = chunk.geometry
    return ceil_div(ceil_div(chunk.n, chunk.geometry.line()), TILE), ceil_div(columns, TILE), channels


def read_planes(chunk, reader):
    down, across, channels = tiles_of(chunk)
    return list(struct.iter_unpack("<ihh", reader.take(8 * down * across * channels)))


def add_planes(chunk, planes, codes):
    _, across, channels = tiles_of(chunk)
    for number, plane in enumerate(planes):
        position, channel = divmod(number, channels)
        ty, tx = divmod(position, across)
        add_plane(chunk, plane, (ty * TILE, tx * TILE, channel), codes)


def add_plane(chunk, plane, corner, codes):
    """Adds a tile's plane to those of its rows that end inside the chunk."""
    a, b, c = plane
    top, left, channel = corner
    channels, columns, _ = chunk.geometry
    tile_columns = min(TILE, columns - left)
    for y in range(TILE):
        first = (top + y) * chunk.geometry.line() + left * channels + channel
        if first + (tile_columns - 1) * channels >= chunk.n:
            return
        for x in range(tile_columns):
            element = first + x * channels
            codes[element] = as_signed(codes[element] + ((a + b * x + c * y + 128) >> 8), chunk.width)


# ---- the program ----


def decode_frame(data):
    """Header, elements as bytes, and what was met in each chunk."""
    reader = ByteReader(data, "frame")
    header = read_header(reader)
    payloads = read_payloads(reader, header, read_index(reader, header))
    elements = []
    stats = []
    for number, payload in enumerate(payloads):
        stats.append({"chunk": number, "elements": header.chunk_size(number)})
        elements.append(decode_chunk(header, number, payload, stats[-1]))
    return header, b"".join(elements), stats


def info_lines(header):
    yield f"element type    {header.element_type.name}"
    yield f"layout          {LAYOUTS[header.layout]}"
    yield f"dims            {','.join(map(str, header.dims))}"
    yield f"elements        {header.n_elements}"
    yield f"flags           {', '.join(name for flag, name in FLAGS if header.flags & flag) or 'none'}"
    yield f"level           {LEVELS[header.level]}"
    yield f"profile         {header.profile}"
    yield f"error bound     {header.bound!r}"
    yield f"dither seed     {header.seed}"
    yield f"chunk elements  {header.chunk_elements}"
    yield f"chunks          {header.n_chunks}"
    yield f"frame bytes     {header.frame_bytes}"


def stats_line(stats):
    """key=value words; lists as 1,2,3."""
    words = []
    for key, value in stats.items():
        words.append(f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}")
    return " ".join(words)


def write_elements(elements, path):
    if path == "-":
        sys.stdout.buffer.write(elements)
        return
    with open(path, "wb") as file:
        file.write(elements)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Decode a Comet frame into raw elements, as docs/format.md says.")
    parser.add_argument("frame", metavar="FRAME", help="the frame; - is standard input")
    parser.add_argument("-o", "--output", metavar="OUT.raw", help="the elements (default standard output)")
    parser.add_argument("--info", action="store_true", help="print the fields of the header")
    parser.add_argument("--stats", action="store_true", help="print a line for every chunk")
    return parser.parse_args()


def run(arguments):
    if arguments.frame == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(arguments.frame, "rb") as file:
            data = file.read()
    header, elements, stats = decode_frame(data)
    lines = list(info_lines(header)) if arguments.info else []
    lines += map(stats_line, stats) if arguments.stats else []
    if lines:
        print("\n".join(lines), flush=True)
    if arguments.output or not (arguments.info or arguments.stats):
        write_elements(elements, arguments.output or "-")


def main():
    arguments = parse_arguments()
    try:
        run(arguments)
    except Damaged as error:
        print(f"decode_frame.py: {arguments.frame}: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"decode_frame.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
