"""Allocators: which one is used, the warning, and scripts started with one that gives memory back."""

import json
import os
import subprocess
import sys
import warnings

import pytest

import comet_torch
from comet_codec import CometError
from comet_torch import allocator, notices

TELL = "import json, os, sys; from comet_torch import allocator; print(json.dumps([sys.argv, allocator.in_use(), __name__]))"
HAS_JEMALLOC = allocator.find_jemalloc() is not None


def plain_environment():
    """The environment without any allocator chosen."""
    chosen = ("LD_PRELOAD", "MALLOC_CONF", "GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_")
    return {name: value for name, value in os.environ.items() if name not in chosen}


def run(*words, environment=None, code=0):
    ended = subprocess.run([sys.executable, "-m", "comet_torch", *map(str, words)], env=environment or plain_environment(),
                           capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "tell.py"
    path.write_text(TELL)
    return path


# ---- what is in use ----


def in_use(environment):
    return subprocess.run([sys.executable, "-c", "from comet_torch import allocator; print(allocator.in_use())"],
                          env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_which_allocator_is_in_use():
    plain = plain_environment()
    assert in_use(plain) == "glibc"
    assert in_use(allocator.environment("glibc", plain)) == "tuned glibc"
    assert in_use({**plain, "MALLOC_MMAP_THRESHOLD_": "1000000"}) == "tuned glibc"


@pytest.mark.skipif(not HAS_JEMALLOC, reason="jemalloc is not installed")
def test_jemalloc_in_use():
    assert in_use(allocator.environment("jemalloc", plain_environment())) == "jemalloc"
    assert in_use(allocator.environment(None, plain_environment())) == "jemalloc"


# ---- the environment ----


def test_without_jemalloc_glibc_is_tuned(monkeypatch):
    monkeypatch.setattr(allocator, "find_jemalloc", lambda: None)
    assert set(allocator.environment(None, {})) == {"GLIBC_TUNABLES"}
    with pytest.raises(CometError, match="jemalloc is not installed: install it"):
        allocator.environment("jemalloc", {})


def test_what_the_environment_says_is_kept_and_wins(monkeypatch):
    monkeypatch.setattr(allocator, "find_jemalloc", lambda: "/lib/jemalloc.so")
    given = {"LD_PRELOAD": "/lib/other.so", "MALLOC_CONF": "thp:never", "HOME": "/root"}
    made = allocator.environment(None, given)
    assert made == {"LD_PRELOAD": "/lib/jemalloc.so:/lib/other.so", "MALLOC_CONF": "thp:always,thp:never", "HOME": "/root"}
    assert allocator.environment(None, made) == made
    tuned = allocator.environment("glibc", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=5"})["GLIBC_TUNABLES"]
    assert tuned.startswith("glibc.malloc.mmap_threshold=1048576:") and tuned.endswith(":glibc.malloc.mmap_threshold=5")


def test_an_unknown_allocator():
    with pytest.raises(CometError, match="unknown allocator 'tcmalloc'; choose jemalloc or glibc"):
        allocator.environment("tcmalloc", {})


# ---- the warning ----


@pytest.fixture
def told_nothing():
    notices.forget()
    yield
    notices.forget()


def test_one_warning_with_default_glibc(monkeypatch, told_nothing):
    monkeypatch.setattr(allocator, "in_use", lambda: "glibc")
    with pytest.warns(UserWarning, match="python -m comet_torch run script.py"):
        allocator.warn_once_if_default_allocator_defeats_saving()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        allocator.warn_once_if_default_allocator_defeats_saving()


def test_the_context_warns(monkeypatch, told_nothing):
    monkeypatch.setattr(allocator, "in_use", lambda: "glibc")
    with pytest.warns(UserWarning, match="the default allocator of glibc keeps freed memory"):
        with comet_torch.compress(eb=0.1):
            pass


@pytest.mark.parametrize("kind", ["tuned glibc", "jemalloc", "tcmalloc", "unknown"])
def test_no_warning_with_another(monkeypatch, told_nothing, kind):
    monkeypatch.setattr(allocator, "in_use", lambda: kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with comet_torch.compress(eb=0.1):
            pass


# ---- python -m comet_torch run ----


def test_a_script_gets_its_arguments_and_an_allocator(script):
    words, kind, name = json.loads(run("run", "--allocator", "glibc", script, "--epochs", "3", "-m", "run", "--allocator", "x"))
    assert words == [str(script), "--epochs", "3", "-m", "run", "--allocator", "x"]
    assert kind == "tuned glibc" and name == "__main__"
    assert json.loads(run("run", script))[1] == ("jemalloc" if HAS_JEMALLOC else "tuned glibc")


def test_a_module_is_run(script):
    environment = plain_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(script.parent), environment.get("PYTHONPATH", "")])
    words, _, name = json.loads(run("run", "-m", "tell", "--epochs", "3", environment=environment))
    assert words == [str(script), "--epochs", "3"] and name == "__main__"


def test_the_exit_code_and_flags_are_the_scripts(tmp_path):
    path = tmp_path / "end.py"
    path.write_text("import sys; sys.exit(40 + sys.flags.optimize)")
    ended = subprocess.run([sys.executable, "-O", "-m", "comet_torch", "run", path], env=plain_environment())
    assert ended.returncode == 41


def test_mistakes_are_named():
    assert "there is no script nothing.py" in run("run", "nothing.py", code=1)
    assert "invalid choice: 'tcmalloc'" in run("run", "--allocator", "tcmalloc", "x.py", code=2)
    assert "required: VERB" in run(code=2)
    assert "required: SCRIPT" in run("run", code=2)
    assert "python -m comet_torch run train.py" in run("run", "--help")


# ---- what it is for ----

CHAIN = """
import sys, torch, comet_torch
torch.set_num_threads(2)

def chain():
    held, n = [], 1 << 20  # 40 tensors of 4 MB, of which a tenth is kept
    for _ in range(40):
        held.append(torch.rand(n)[: n // 10].clone())
    return len(held)

if __name__ == "__main__":
    chain_peak = comet_torch.peak(chain)
    assert chain_peak.result == 40
    print(chain_peak.net)
"""


@pytest.mark.parametrize("kind", ["glibc"] + ["jemalloc"] * HAS_JEMALLOC)
def test_freed_memory_is_given_back(tmp_path, kind):
    path = tmp_path / "chain.py"
    path.write_text(CHAIN)
    net = int(run("run", "--allocator", kind, path))
    assert 16e6 < net < 80e6  # 16.8 MB are held, 168 MB were made


def test_starting_a_script_does_not_import_torch():
    code = ("import sys, comet_torch.__main__; assert 'torch' not in sys.modules; "
            "from comet_torch import *; assert 'torch' in sys.modules and callable(peak) and callable(compress); "
            "import comet_torch.peak_memory; assert callable(comet_torch.peak) and 'peak' in dir(comet_torch)")
    subprocess.run([sys.executable, "-c", code], check=True)
