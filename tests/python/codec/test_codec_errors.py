"""Bad arrays, options and frames: one exception with the reason."""

import numpy as np
import pytest

import comet_codec
from comet_codec import CometError

X = np.linspace(-1, 1, 4000, dtype=np.float32).reshape(40, 100)


@pytest.mark.parametrize("array, sentence", [
    ([1.0, 2.0], "a NumPy array is needed, not list"),
    (np.float32(3), "a NumPy array is needed, not float32"),
    (np.array(3, np.float32), r"no dimension: compress array.reshape\(1\)"),
    (X.astype(np.int32), "'<i4' .int32."),
    (X.astype(bool), "bool"),
    (X.astype(np.complex64), "complex64"),
    (X.astype(">f4"), r"convert them with array.astype\('<f4'\)"),
    (X.astype(np.uint16), 'say so with type="bf16"'),
    (np.array(["a"]), "can be compressed"),
    (np.array([None]), "can be compressed"),
    (np.zeros((1,) * 9, np.float32), "9 dimensions; 8 are the most"),
])
def test_arrays_that_cannot_be_compressed(array, sentence):
    with pytest.raises(CometError, match=sentence) as caught:
        comet_codec.compress(array, eb=0.1)
    assert caught.value.status == "argument"


@pytest.mark.parametrize("eb", ["", "x", "rel", "-0.1", "1e-3 rel", " 0.1", "0.1STD", "nan", "inf", "1_0", "1e999", "0x10", "0.1stdx", -1,
                                -1e-9, float("nan"), float("inf"), None, True, b"0.1", [0.1]])
def test_bounds_that_make_no_sense(eb):
    with pytest.raises(CometError, match="is not a bound: write 0.01, 1e-3rel, 0.1std, lossless or 12x"):
        comet_codec.compress(X, eb=eb)


@pytest.mark.parametrize("options, sentence", [
    (dict(eb="0.5x"), "a ratio is 1 or more"),
    (dict(eb=1e-310), "too small for a double; use lossless"),
    (dict(eb="1e-400"), "too small for a double; use lossless"),
    (dict(level="medium"), "unknown level 'medium'; choose fast, dense or auto"),
    (dict(level=1), "unknown level 1"),
    (dict(level=[]), r"unknown level \[\]"),
    (dict(layout="NCHW"), "unknown layout 'NCHW'"),
    (dict(layout="nhwc"), r"shape \(40, 100\) is not one of layout nhwc: \(.., H, W, C\)"),
    (dict(layout="nChw8c"), r"not one of layout nChw8c: \(.., C/8, H, W, 8\)"),
    (dict(dims=(4000,)), r"shape \(40, 100\) is not that of dims \(4000,\)"),
    (dict(dims=(40, 100), layout="nhwc"), "is not that of dims"),
    (dict(type="f64"), "the array's elements are f32, not f64"),
    (dict(type="float"), "unknown type 'float'"),
    (dict(dither=-1), "the seed of dither is a whole number"),
    (dict(dither=1 << 64), "the seed of dither is a whole number"),
    (dict(dither=0.5), "the seed of dither is a whole number"),
    (dict(dither=True, keep_support=True), "dither"),
    (dict(dither=True, eb="lossless"), "dither"),
    (dict(min_ratio=4), 'no effect without level="auto"'),
    (dict(min_ratio=-1, level="auto"), "min_ratio is a number from 0"),
    (dict(min_ratio=float("nan"), level="auto"), "min_ratio is a number from 0"),
    (dict(chunk=63), "chunk is a whole number from 64 to 16777216, not 63"),
    (dict(chunk=(1 << 24) + 1), "chunk is a whole number"),
    (dict(threads=-1), "threads is a whole number from 0"),
    (dict(threads=100000), "threads is a whole number from 0"),
])
def test_options_that_make_no_sense(options, sentence):
    with pytest.raises(CometError, match=sentence) as caught:
        comet_codec.compress(X, **{"eb": 0.1, **options})
    assert caught.value.status == "argument"


def test_a_ratio_out_of_reach():
    noise = np.random.default_rng(3).integers(0, 1 << 32, 1000, dtype=np.uint32).view(np.float32)
    with pytest.raises(CometError) as caught:
        comet_codec.compress(noise, eb="1000000x")
    assert caught.value.status == "unreachable"


def test_arrays_for_which_there_is_no_memory():
    endless = np.broadcast_to(np.zeros(1, np.float32), (1 << 50,))
    with pytest.raises(CometError, match="out of memory for a copy of the array in C order") as caught:
        comet_codec.compress(endless, eb=1)
    assert caught.value.status == "memory"


def test_a_frame_for_whose_array_there_is_no_memory(monkeypatch):
    frame = comet_codec.compress(X, eb=0.1)

    def no_memory(*arguments):
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr(np, "empty", no_memory)
    with pytest.raises(CometError, match="out of memory for the array: Unable to allocate 8 TiB"):
        comet_codec.decompress(frame)
    with pytest.raises(CometError, match="out of memory for the frame"):
        comet_codec.compress(X, eb=0.1)


# ---- frames ----


def test_a_frame_in_which_one_bit_is_wrong():
    frame = bytearray(comet_codec.compress(X, eb=0.01))
    for place in range(0, len(frame), 7):
        frame[place] ^= 1 << place % 8
        with pytest.raises(CometError) as caught:
            comet_codec.decompress(bytes(frame))
        assert caught.value.status in ("corrupt", "unsupported")
        frame[place] ^= 1 << place % 8


def test_a_frame_that_is_cut_or_too_long():
    frame = comet_codec.compress(X, eb=0.01)
    for n in [0, 1, 4, 20, len(frame) // 2, len(frame) - 1]:
        for call in (comet_codec.decompress, comet_codec.info, lambda cut: comet_codec.verify(X, cut)):
            with pytest.raises(CometError) as caught:
                call(frame[:n])
            assert caught.value.status in ("corrupt", "argument")
    with pytest.raises(CometError, match="bytes left over at the end"):
        comet_codec.decompress(frame + b"\0")
    with pytest.raises(CometError, match=f"truncated: the frame has {len(frame)} bytes, {len(frame) - 1} are given"):
        comet_codec.decompress(frame[:-1])


@pytest.mark.parametrize("frame", [None, 3, "text", [1, 2]])
def test_what_is_no_frame_at_all(frame):
    with pytest.raises(CometError, match="a frame is bytes or another contiguous buffer"):
        comet_codec.decompress(frame)


def test_verify_says_what_is_wrong():
    frame = comet_codec.compress(X, eb=0.01)
    assert comet_codec.verify(X, frame)["ok"] is True
    other = X.copy()
    other[3, 4] += 1
    seen = comet_codec.verify(other, frame)
    assert seen["ok"] is False and seen["n_violations"] == 1
    assert seen["first_violation"] == 304 and seen["coordinates"] == [3, 4]
    assert seen["original"] == other[3, 4] and abs(seen["decoded"] - X[3, 4]) <= 0.01
    assert comet_codec.verify(X, frame, eb=1e-9)["ok"] is False
    assert comet_codec.verify(X, frame, eb=1)["eb"] == pytest.approx(0.01)


def test_verify_names_coordinates_in_any_layout():
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 4)).astype(np.float32)
    frame = comet_codec.compress(x, eb=0.01, layout="nhwc")
    x[1, 2, 3, 0] += 1
    assert comet_codec.verify(x, frame)["coordinates"] == [1, 0, 2, 3]


def test_verify_of_another_array():
    frame = comet_codec.compress(X, eb=0.01)
    for other in (X.astype(np.float64), X.T, X[:1]):
        with pytest.raises(CometError, match="the original is .*, the frame's array f32 of shape"):
            comet_codec.verify(other, frame)
    with pytest.raises(CometError, match="is not an absolute bound"):
        comet_codec.verify(X, frame, eb="0.1std")


def test_errors_can_be_pickled():
    import pickle

    with pytest.raises(CometError) as caught:
        comet_codec.decompress(b"no frame")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and copy.status == caught.value.status
