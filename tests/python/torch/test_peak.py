"""comet_torch.peak: the figures, the result, and what is said of functions that fail."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import comet_torch
from comet_codec import CometError

MB = 1 << 20


def fill(n_bytes, value=7):
    """Memory that is touched and freed."""
    return sum(bytearray([value]) * n_bytes) // n_bytes


def make(n_elements):
    return torch.arange(n_elements, dtype=torch.float32)


def nothing():
    return os.getpid()


def fail(word):
    raise ValueError(f"no {word} here")


def leave(code):
    sys.exit(code)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def end():
    os._exit(3)


def unpicklable():
    return lambda: 0


def wait(seconds, *, then):
    time.sleep(seconds)
    return then


def test_the_peak_of_a_function():
    small, large = comet_torch.peak(fill, 10 * MB), comet_torch.peak(fill, 200 * MB, value=9)
    assert (small.result, large.result) == (7, 9)
    assert 9 * MB <= small.net < 18 * MB  # the kernel counts in steps of some pages
    assert 199 * MB <= large.net < 208 * MB
    assert large.gross == pytest.approx(large.imports + large.net, rel=0.02)
    assert large.imports > 50 * MB  # torch


def test_memory_of_the_caller_does_not_count():
    before = comet_torch.peak(nothing)
    held = bytearray(b"x") * (400 * MB)
    after = comet_torch.peak(nothing)
    assert after.result != os.getpid()
    assert after.gross < before.gross + 50 * MB and after.net < 8 * MB
    assert len(held) == 400 * MB


def test_results_with_tensors():
    found = comet_torch.peak(make, 5000000)
    assert torch.equal(found.result, make(5000000))
    assert 20e6 <= found.net < 32e6


def test_arguments_by_name():
    assert comet_torch.peak(wait, 0.01, then="done").result == "done"


def test_the_figures_in_words():
    assert str(comet_torch.peak.__globals__["Peak"](None, 900_000_000, 200_000_000, 700_000_000)) == (
        "peak 200 MB, 900 MB with the 700 MB of imports")


@pytest.mark.parametrize("function, arguments, sentence", [
    (fail, ("luck",), r"raised ValueError: no luck here\n\nin the process that was measured:\nTraceback"),
    (fail, (), "raised TypeError"),
    (leave, (5,), "raised SystemExit: 5"),
    (die, (), "was not measured: the process was ended by signal 9, as where memory runs out"),
    (end, (), "was not measured: the process exited with 3 before the function returned"),
    (unpicklable, (), "raised .*unpicklable"),
])
def test_errors_come_back_as_one_exception(function, arguments, sentence):
    with pytest.raises(CometError, match=sentence) as caught:
        comet_torch.peak(function, *arguments)
    assert caught.value.status == "measure"


def test_a_function_that_cannot_be_sent():
    with pytest.raises(CometError, match="cannot be sent to another process: .*; define it in a module or script"):
        comet_torch.peak(lambda: 0)


def test_a_script_without_a_guard_is_told_so(tmp_path):
    path = tmp_path / "unguarded.py"
    path.write_text("import comet_torch\ndef f():\n    return 1\ncomet_torch.peak(f)\n")
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert ended.returncode == 1
    assert '`if __name__ == "__main__":`' in ended.stderr.splitlines()[-1]
