"""Arrays of every kind through compress and decompress: what comes back, and what cannot be compressed."""

import os
import threading

import numpy as np
import pytest

import comet_codec
from comet_codec import CometError

FLOATS = (np.float32, np.float16, np.float64)


def activations(*shape, dtype=np.float32, seed=1):
    """ReLU results: half of them zero."""
    return np.maximum(np.random.default_rng(seed).normal(size=shape), 0).astype(dtype)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("level", ["fast", "dense", "auto"])
def test_every_element_is_within_the_bound(dtype, level):
    x = activations(4, 8, 30, 31, dtype=dtype)
    y = comet_codec.decompress(comet_codec.compress(x, eb=0.01, level=level))
    assert y.dtype == x.dtype and y.shape == x.shape
    assert np.abs(x.astype(np.float64) - y.astype(np.float64)).max() <= 0.01
    assert not np.array_equal(x, y)
    assert (y[x == 0] == 0).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("eb", ["lossless", 0, "0", 0.0])
def test_lossless_keeps_every_bit(dtype, eb):
    x = activations(3, 1000, dtype=dtype)
    x[0, :6] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).tiny, np.finfo(dtype).max]
    assert same_bits(comet_codec.decompress(comet_codec.compress(x, eb=eb)), x)


def test_bounds_relative_to_the_tensor():
    x = activations(64, 500)
    assert comet_codec.info(comet_codec.compress(x, eb="0.1std"))["eb"] == pytest.approx(0.1 * x.astype(float).std(), rel=1e-6)
    assert comet_codec.info(comet_codec.compress(x, eb="1e-3rel"))["eb"] == pytest.approx(1e-3 * float(x.max()), rel=1e-6)
    assert x.nbytes / len(comet_codec.compress(x, eb="9x")) >= 9


@pytest.mark.parametrize("shape", [(0,), (0, 3, 4), (5, 0), (1,), (1, 1, 1, 1), (7,), (1, 2, 1, 3, 1, 2, 1, 5)])
def test_small_and_empty_arrays(shape):
    x = activations(*shape)
    y = comet_codec.decompress(comet_codec.compress(x, eb="lossless"))
    assert same_bits(x, y)


def test_arrays_that_are_not_in_c_order_are_coded_as_their_copy():
    x = activations(6, 8, 10)
    for view in (x.T, x[::2, :, ::3], np.asfortranarray(x), x[:, ::-1], np.broadcast_to(x[0], (3, 8, 10))):
        assert comet_codec.compress(view, eb=0.01) == comet_codec.compress(np.ascontiguousarray(view), eb=0.01)


def test_misaligned_arrays():
    memory = np.zeros(4 * 100 + 1, np.uint8)
    x = memory[1:].view(np.float32) if memory[1:].flags.aligned else np.frombuffer(memory.data, np.float32, 100, offset=1)
    assert not x.flags.aligned
    assert comet_codec.compress(x, eb=0.5) == comet_codec.compress(np.zeros(100, np.float32), eb=0.5)


def test_read_only_arrays_and_frames_of_any_buffer():
    x = activations(50, 50)
    x.flags.writeable = False
    frame = comet_codec.compress(x, eb=0.01)
    expected = comet_codec.decompress(frame)
    shifted = bytearray(b"." + frame)
    for other in (bytearray(frame), memoryview(frame), np.frombuffer(frame, np.uint8), memoryview(shifted)[1:]):
        assert same_bits(comet_codec.decompress(other), expected)
    assert expected.flags.writeable


def test_bfloat16_as_bits():
    x = (activations(100, 30).view(np.uint32) >> 16).astype(np.uint16)
    frame = comet_codec.compress(x, eb=0.05, type="bf16")
    assert comet_codec.info(frame)["dtype"] == "bf16"
    y = comet_codec.decompress(frame, bits=True)
    assert y.dtype == np.uint16
    wide = [(a.astype(np.uint32) << 16).view(np.float32) for a in (x, y)]
    assert 0 < np.abs(wide[0] - wide[1]).max() <= 0.05
    assert comet_codec.verify(x, frame)["ok"]


def test_bfloat16_of_ml_dtypes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = activations(100, 30).astype(bfloat16)
    frame = comet_codec.compress(x, eb=0.05)
    assert frame == comet_codec.compress(x.view(np.uint16), eb=0.05, type="bf16")
    y = comet_codec.decompress(frame)
    assert y.dtype == bfloat16
    assert np.abs(x.astype(float) - y.astype(float)).max() <= 0.05
    assert comet_codec.verify(x, frame)["ok"]


def test_bfloat16_without_ml_dtypes(monkeypatch):
    monkeypatch.setattr("comet_codec._codec._bfloat16", lambda: None)
    frame = comet_codec.compress(np.zeros(9, np.uint16), eb=1, type="bf16")
    with pytest.raises(CometError, match="ml_dtypes is not installed.*bits=True"):
        comet_codec.decompress(frame)
    assert comet_codec.decompress(frame, bits=True).dtype == np.uint16


@pytest.mark.parametrize("layout, shape, dims", [
    ("nchw", (2, 12, 5, 7), [2, 12, 5, 7]), ("nhwc", (2, 5, 7, 12), [2, 12, 5, 7]), ("nChw8c", (2, 3, 5, 7, 8), [2, 24, 5, 7]),
    ("nChw16c", (2, 2, 5, 7, 16), [2, 32, 5, 7])])
def test_layouts(layout, shape, dims):
    x = activations(*shape)
    frame = comet_codec.compress(x, eb=0.01, layout=layout)
    assert comet_codec.info(frame)["dims"] == dims and comet_codec.info(frame)["layout"] == layout
    assert comet_codec.decompress(frame).shape == shape
    assert comet_codec.verify(x, frame)["ok"]


def test_channels_that_fill_no_block():
    x = activations(2, 2, 5, 7, 8)
    frame = comet_codec.compress(x, eb=0.01, layout="nChw8c", dims=(2, 13, 5, 7))
    assert comet_codec.info(frame)["dims"] == [2, 13, 5, 7]
    assert comet_codec.decompress(frame).shape == x.shape


def test_options_reach_the_frame():
    x = activations(40, 40)
    told = comet_codec.info(comet_codec.compress(x, eb=0.01, keep_support=True, checksum=False, chunk=256, level="dense"))
    assert (told["keep_support"], told["content_checksum"], told["chunk_elements"], told["level"]) == (True, False, 256, "dense")
    told = comet_codec.info(comet_codec.compress(x, eb=0.01, dither=5, level="auto", min_ratio=4))
    assert (told["dither"], told["dither_seed"], told["level"]) == (True, 5, "auto")
    assert comet_codec.info(comet_codec.compress(x, eb=0.01, dither=True))["dither_seed"] == 0
    assert comet_codec.info(comet_codec.compress(x, eb=0.01, dither=0))["dither"] is True
    assert comet_codec.info(comet_codec.compress(x, eb=0.01, dither=False))["dither"] is False


def test_any_number_of_threads_gives_the_same():
    x = activations(16, 64, 32, 32)
    frames = {comet_codec.compress(x, eb=0.01, level="dense", threads=n) for n in (0, 1, 2, 3)}
    assert len(frames) == 1
    frame = frames.pop()
    assert len({comet_codec.decompress(frame, threads=n).tobytes() for n in (0, 1, 3)}) == 1


def test_several_python_threads_at_once():
    arrays = [activations(8, 16, 20, 20 + k, seed=k) for k in range(4)]
    expected = [comet_codec.compress(x, eb=0.01) for x in arrays]
    wrong = []

    def work(k):
        for _ in range(10):
            if comet_codec.compress(arrays[k], eb=0.01) != expected[k]:
                wrong.append(k)
            if comet_codec.verify(arrays[k], expected[k])["ok"] is not True:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_process_compresses():
    x = activations(8, 16, 20, 20)
    expected = comet_codec.compress(x, eb=0.01)
    child = os.fork()
    if child == 0:
        os._exit(0 if comet_codec.compress(x, eb=0.01) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
