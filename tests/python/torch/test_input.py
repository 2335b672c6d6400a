"""What bad input gets: one exception with the reason and what helps."""
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import comet_torch
import nets


@pytest.mark.parametrize("eb", ["0.1 std of it", "std", "", "-1", -1, float("nan"), float("inf"), "nan", "2std", "1e999", "0.5range"])
def test_bounds_that_make_no_sense(eb):
    with pytest.raises(ValueError, match="eb="):
        comet_torch.compress(eb=eb)


@pytest.mark.parametrize("eb", [[0.1], True, object(), b"0.1"])
def test_bounds_of_no_kind(eb):
    with pytest.raises(TypeError, match="write a number"):
        comet_torch.compress(eb=eb)


@pytest.mark.parametrize("level", ["best", "", 2, None])
def test_levels(level):
    with pytest.raises(ValueError, match="fast, dense, auto"):
        comet_torch.compress(eb="0.1std", level=level)


@pytest.mark.parametrize("noise", [0, -0.1, 1, 2.0, float("nan")])
def test_noise(noise):
    with pytest.raises(ValueError, match="noise"):
        comet_torch.compress(nets.GPT(), noise=noise)


def test_neither_model_nor_bound():
    with pytest.raises(ValueError, match="without a model a fixed bound"):
        comet_torch.compress()


def test_kinds_of_arguments():
    with pytest.raises(TypeError, match="torch.nn.Module"):
        comet_torch.compress([nn.Linear(2, 2)])
    with pytest.raises(TypeError, match="method step"):
        comet_torch.compress(nn.Linear(2, 2), "sgd")


@pytest.mark.parametrize("overrides, match", [
    ({"layer9.*": "lossless"}, "fits no module"),
    ({"blocks.*": "exact"}, "write \"lossless\""),
    ({"blocks.*": dict(eb=0.1, bound=1)}, "bound"),
    ({"blocks.*": dict(level="fast")}, "needs a bound"),
    ({"blocks.*": dict(eb="x")}, "eb='x'"),
])
def test_overrides(overrides, match):
    with pytest.raises((ValueError, TypeError), match=match):
        comet_torch.compress(nets.GPT(), overrides=overrides)


def test_overrides_hold():
    net, x = nets.make("gpt")
    with comet_torch.compress(net, eb="0.1std", overrides={"blocks.*": dict(eb="0.02std", level="dense"), "blocks.1*": "lossless",
                                                           "blocks.0.norm1": "raw"}) as mem:
        nets.loss_of(net, x).backward()
    bounds = {site.key.split(":")[0]: site.figures.bound for site in mem.figures.sites if site.figures.bound is not None}
    assert not any(name == "blocks.0.norm1" for name in bounds)
    assert bounds["blocks.0.norm2"].eb == 0.02 and bounds["blocks.1.norm2"].lossless and bounds["norm"].eb == 0.1


def test_a_torch_that_is_too_old(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "1.12.1+cu113")
    with pytest.raises(RuntimeError, match="1.12.1.* too old.*1.13 or later"):
        comet_torch.compress(eb="0.1std")


@pytest.mark.parametrize("library, reason", [("/nowhere/libcomet_native.so", "not a file"), (torch._C.__file__, "cannot be used")])
def test_a_library_that_is_missing_or_another(library, reason):
    code = "import comet_torch; comet_torch.compress(eb='0.1std')"
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "COMET_NATIVE": library}, capture_output=True, text=True)
    assert ended.returncode == 1 and reason in ended.stderr and "CometError" in ended.stderr


def test_a_context_opened_twice():
    mem = comet_torch.compress(eb="0.1std")
    with mem:
        with pytest.raises(RuntimeError, match="open already"):
            mem.__enter__()


def test_a_module_added_inside_the_block():
    """What the model gains is coded under the name of the module around it; the gradients are right."""
    net, x = nets.make("gpt")
    with comet_torch.compress(net, eb="lossless") as mem:
        net.head = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        _, coded = nets.gradients(net, x)
    _, plain = nets.gradients(net, x)
    assert all(torch.equal(plain[name], coded[name]) for name in plain)
    assert {site.module for site in mem.figures.sites} >= {""}


def test_a_state_of_something_else():
    mem = comet_torch.compress(nets.GPT())
    with pytest.raises(ValueError, match="no state of comet_torch"):
        mem.load_state_dict({"version": 99})
    with pytest.raises(ValueError, match="no state of comet_torch"):
        mem.load_state_dict(None)


def test_the_state_of_adaptive_bounds_is_not_for_fixed_ones():
    state = comet_torch.compress(nets.GPT()).state_dict()
    with pytest.raises(ValueError, match="bounds of this run are fixed"):
        comet_torch.compress(nets.GPT(), eb="0.1std").load_state_dict(state)


