"""The bytes and figures of comet_codec are those of the program."""

import json
import subprocess

import numpy as np
import pytest

import comet_codec

SHAPE = (3, 16, 13, 14)


def run(program, *words, data=None):
    return subprocess.run([program, *map(str, words)], input=data, capture_output=True, check=True).stdout


def field(dtype):
    return np.maximum(np.random.default_rng(5).normal(size=SHAPE), 0).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("words, options", [
    (["-e", "0.01"], dict(eb=0.01)),
    (["-e", "0.1std"], dict(eb="0.1std")),
    (["-e", "1e-3rel", "-l", "dense"], dict(eb="1e-3rel", level="dense")),
    (["-e", "lossless"], dict(eb="lossless")),
    (["-e", "0"], dict(eb=0)),
    (["-e", "12x", "-l", "auto"], dict(eb="12x", level="auto")),
    (["-e", "0.02", "-l", "auto", "--min-ratio", "5"], dict(eb="0.02", level="auto", min_ratio=5)),
    (["-e", "0.1", "--keep-support"], dict(eb=0.1, keep_support=True)),
    (["-e", "0.1", "--dither"], dict(eb=0.1, dither=True)),
    (["-e", "0.1", "--dither=99"], dict(eb=0.1, dither=99)),
    (["-e", "0.1", "--no-checksum"], dict(eb=0.1, checksum=False)),
    (["-e", "0.1", "--chunk", "640"], dict(eb=0.1, chunk=640)),
    (["-e", "0.1", "--layout", "nhwc"], dict(eb=0.1, layout="nhwc")),
    (["-e", "0.1", "-j", "2"], dict(eb=0.1, threads=1)),
])
def test_same_bytes(comet_program, tmp_path, dtype, words, options):
    x = field(dtype)
    np.save(tmp_path / "x.npy", x)
    assert comet_codec.compress(x, **options) == run(comet_program, "compress", tmp_path / "x.npy", "-o", "-", *words)


@pytest.mark.parametrize("layout, block, dims", [("nChw8c", 8, (3, 13, 9, 9)), ("nChw16c", 16, (3, 32, 9, 9))])
def test_same_bytes_of_blocked_layouts(comet_program, tmp_path, layout, block, dims):
    x = np.random.default_rng(6).normal(size=(3, -(-dims[1] // block), 9, 9, block)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ["-e", "0.1", "--layout", layout, "-d", ",".join(map(str, dims))]
    frame = run(comet_program, "compress", tmp_path / "x.npy", "-o", "-", *words)
    assert comet_codec.compress(x, eb=0.1, layout=layout, dims=dims) == frame


def test_same_bytes_of_bfloat16(comet_program, tmp_path):
    x = (field(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    np.save(tmp_path / "x.npy", x)
    frame = run(comet_program, "compress", tmp_path / "x.npy", "-o", "-", "-e", "0.1", "-t", "bf16")
    assert comet_codec.compress(x, eb=0.1, type="bf16") == frame
    (tmp_path / "x.comet").write_bytes(frame)
    run(comet_program, "decompress", tmp_path / "x.comet", "-o", tmp_path / "back.npy")
    assert np.array_equal(np.load(tmp_path / "back.npy"), comet_codec.decompress(frame, bits=True))


def test_decompress_as_the_program_does(comet_program, tmp_path):
    frame = comet_codec.compress(field(np.float32), eb=0.1, layout="nhwc")
    (tmp_path / "x.comet").write_bytes(frame)
    run(comet_program, "decompress", tmp_path / "x.comet", "-o", tmp_path / "back.npy")
    assert np.array_equal(np.load(tmp_path / "back.npy"), comet_codec.decompress(frame))


@pytest.mark.parametrize("options", [dict(eb=0.1), dict(eb="lossless"), dict(eb=0.1, profile="device"),
                                     dict(eb=0.1, dither=7, level="dense", layout="nhwc")])
def test_same_info_and_verdict(comet_program, tmp_path, options):
    x = field(np.float32)
    frame = comet_codec.compress(x, **options)
    (tmp_path / "x.comet").write_bytes(frame)
    np.save(tmp_path / "x.npy", x)
    told = json.loads(run(comet_program, "info", tmp_path / "x.comet", "--json"))
    assert told.pop("file") == str(tmp_path / "x.comet")
    found = comet_codec.info(frame)
    assert told.keys() == found.keys()
    assert told == {key: pytest.approx(value, rel=1e-6) if isinstance(value, float) else value for key, value in found.items()}
    told = json.loads(run(comet_program, "verify", tmp_path / "x.npy", tmp_path / "x.comet", "--json"))
    found = comet_codec.verify(x, frame)
    assert told.keys() == found.keys()
    for key in ("ok", "n_elements", "n_violations", "first_violation", "n_zeros", "n_zeros_kept", "n_support"):
        assert told[key] == found[key], key
    assert told["max_error"] == pytest.approx(found["max_error"], rel=1e-6)
