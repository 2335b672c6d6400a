"""Writes odd tensors as raw elements, FOLDER/NAME.TYPE, for run_format_test. Needs the standard library only.

usage: make_tensors.py FOLDER

Random numbers are Random.random() of a fixed seed, which all versions of Python give alike.
"""
import math
import pathlib
import random
import struct
import sys


def bf16(x):
    """Bytes of x cut (not rounded) to bf16; a NaN stays one."""
    return b"\xc1\xff" if x != x else struct.pack("<f", x)[2:]


PACK = {
    "f32": lambda x: struct.pack("<f", x),
    "f16": lambda x: struct.pack("<e", x),
    "bf16": bf16,
    "f64": lambda x: struct.pack("<d", x),
}


def spread(rng, size):
    return size * (2 * rng.random() - 1)


def wave(rng, n):
    return [math.sin(i / 9) + spread(rng, 0.01) for i in range(n)]


def spikes(rng, n, largest):
    """A wave with NaN, infinities, zeros of both signs and very large and small values."""
    odd = (math.nan, math.inf, -math.inf, largest, -largest, 0.0, -0.0, 6e-8, -1e-4)
    return [odd[int(rng.random() * len(odd))] if rng.random() < 0.03 else x for x in wave(rng, n)]


def ramp(rng, lines, columns, channels, noise):
    """Slopes of their own for each channel, channels innermost, and as much noise that other predictors do badly."""
    slopes = [(spread(rng, 60), spread(rng, 60), spread(rng, 2000)) for _ in range(channels)]
    return [b * x + c * y + a + spread(rng, noise) for y in range(lines) for x in range(columns) for b, c, a in slopes]


def patchwork(rng, n, columns, values):
    """Runs of a few values, often those of the line above: little entropy, large steps."""
    out = []
    value = values[0]
    for i in range(n):
        if i >= columns and rng.random() < 0.5:
            value = out[i - columns]
        if rng.random() < 0.1:
            value = values[int(rng.random() * len(values))]
        out.append(value)
    return out


def f32_of_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def tensors():
    """(name, type, values)"""
    rng = random.Random(1)
    yield "zeros", "f32", [0.0] * 1000
    yield "constant", "f32", [-3.25] * 1000
    yield "bits", "f32", [f32_of_bits(int(2**32 * rng.random())) for _ in range(900)]
    for name in PACK:
        yield "spikes", name, spikes(rng, 3000, 6e4 if name == "f16" else 1e30)
        yield "sparse", name, [spread(rng, 1) if rng.random() < 0.1 else 0.0 for _ in range(2500)]
    yield "ramp1", "f32", ramp(rng, 45, 40, 1, 300)
    yield "ramp1", "f64", ramp(rng, 64, 64, 1, 20)
    yield "ramp3", "f32", ramp(rng, 33, 40, 3, 40)
    yield "ramp8", "f32", ramp(rng, 20, 24, 8, 100)
    yield "ramp16", "f16", ramp(rng, 16, 16, 16, 10)
    # Codes at the ends of their range, if the bound is 0.5.
    yield "ends16", "f32", patchwork(rng, 4000, 40, (8191, -8191, 8190, 0))
    yield "ends32", "f32", patchwork(rng, 4000, 40, (2.0**28, -2.0**28, 2.0**28 - 16, 0))
    # Differences and sums of these do not fit in 32 bits when coded lossless.
    yield "signs", "f32", patchwork(rng, 4000, 40, (5.0, -5.0, 6.0, -7.0))
    yield "signs", "f64", patchwork(rng, 1000, 40, (5.0, -5.0, 6.0, -1e300))
    yield "nans", "f32", patchwork(rng, 4000, 40, [f32_of_bits(b) for b in (0x7FC00005, 0xFFC00007, 0x7FFFFFFF, 0xFFFFFFFF)])
    yield "subnormal", "f32", patchwork(rng, 2000, 40, [k * 2.0**-149 for k in (0, 1, -7, 300, -5000, 70000)])
    # Far from 0 for bounds about 0.3: codes, or their odd integers with keep support, are not all exact in f32.
    yield "far", "f32", [2e7 + 20 * math.sin(i / 9) for i in range(2000)]
    # A line of 4096 over and over, in one dimension.
    yield "periodic", "f16", ([spread(rng, 1) for _ in range(4096)] * 65)[:2**18 + 1]
    # Rough planes, each much like the one before.
    plane = [spread(rng, 4) for _ in range(37 * 130)]
    yield "planes", "f32", [x + spread(rng, 0.1) for _ in range(4) for x in plane]
    # The steps between outliers skip up to all they can.
    rare = {0, 1, 128, 130, 400, 16784, 17000, 39999}
    yield "rare", "f32", [math.nan if i in rare else 0.0 for i in range(40000)]
    yield "halves", "bf16", [spread(rng, 4) for _ in range(2000)]
    yield "large", "f16", [spread(rng, 65000) for _ in range(2000)]
    yield "large", "f32", [spread(rng, 3e38) for _ in range(2000)]
    yield "large", "f64", [spread(rng, 1e308) for _ in range(1000)]


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, type_name, values in tensors():
        (folder / f"{name}.{type_name}").write_bytes(b"".join(map(PACK[type_name], values)))


if __name__ == "__main__":
    main()
