"""Finding the native library: its places, and what is said where it is missing or of another version."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from comet_codec import CometError, _library

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fresh(monkeypatch):
    """native() looks for the library again, and does not keep what it finds."""
    monkeypatch.setattr(_library, "native", _library.native.__wrapped__)
    return monkeypatch


def compiled(tmp_path, source):
    """A shared library of one C file."""
    (tmp_path / "other.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "other.so", tmp_path / "other.c"], check=True)
    return str(tmp_path / "other.so")


def test_a_missing_library_is_one_error_with_the_fix(fresh, tmp_path):
    fresh.delenv("COMET_NATIVE", raising=False)
    fresh.setattr(_library, "_candidates", lambda: [tmp_path / "nothing.so"])
    with pytest.raises(CometError, match="nothing.so.*pip install ./python") as caught:
        _library.native()
    assert caught.value.status == "library"


def test_a_variable_that_names_no_file(fresh, tmp_path):
    fresh.setenv("COMET_NATIVE", str(tmp_path / "gone.so"))
    with pytest.raises(CometError, match="COMET_NATIVE names .*gone.so, which is not a file"):
        _library.native()


def test_a_file_that_is_no_library(fresh, tmp_path):
    (tmp_path / "text.so").write_text("no library")
    fresh.setenv("COMET_NATIVE", str(tmp_path / "text.so"))
    with pytest.raises(CometError, match="text.so cannot be used: .*; build it again with `pip install"):
        _library.native()


def test_a_library_without_the_functions(fresh, tmp_path):
    fresh.setenv("COMET_NATIVE", compiled(tmp_path, "int unused;"))
    with pytest.raises(CometError, match="cannot be used: .*comet_native_version"):
        _library.native()


def test_a_library_of_another_version(fresh, tmp_path):
    fresh.setenv("COMET_NATIVE", compiled(tmp_path, 'const char *comet_native_version(void) { return "9.8.7"; }'))
    with pytest.raises(CometError, match=r"is of version 9\.8\.7, the Python package of .*: build it again"):
        _library.native()


def test_a_library_of_the_same_version_that_lacks_a_function(fresh, tmp_path):
    source = ('const char *comet_native_version(void) { return "VERSION"; } const char *comet_native_last_error(void) { return ""; }'
              .replace("VERSION", _library.__version__))
    fresh.setenv("COMET_NATIVE", compiled(tmp_path, source))
    with pytest.raises(CometError, match="other.so is older than the Python package: .*undefined symbol.*; build it again"):
        _library.native()


def test_the_variable_comes_first(fresh):
    path = _library.library_path()
    fresh.setenv("COMET_NATIVE", path)
    fresh.setattr(_library, "_candidates", lambda: [])
    assert _library.library_path() == path and _library.native().comet_native_version().decode() == _library.__version__


def test_loading_fails_in_words_in_a_new_process(tmp_path):
    code = "import comet_codec, numpy; comet_codec.compress(numpy.zeros(3, 'f4'), eb=1)"
    environment = {**os.environ, "COMET_NATIVE": str(tmp_path / "gone.so")}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and "CometError: COMET_NATIVE names" in ended.stderr.splitlines()[-1]


# ---- declarations ----

HEADER = ROOT / "python" / "native" / "comet_native.h"
DECLARED = re.findall(r"\bcomet_native_[a-z_]+(?=\()", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)) if HEADER.is_file() else []


def test_every_function_of_the_header_is_declared():
    names = {"comet_native_" + name for name in [*_library._FALLIBLE, *_library._OTHER]}
    assert names == set(DECLARED)


def test_structs_are_as_long_as_in_c(tmp_path):
    structs = {"job": _library.Job, "figures": _library.Figures, "frame": _library.Frame, "comparison": _library.Comparison,
               "consumer": _library.Consumer}
    lines = [f"unsigned long size_of_{name}(void) {{ return sizeof(comet_native_{name}); }}" for name in structs]
    for name, struct in structs.items():
        lines += [f"unsigned long {name}_{field[0]}(void) {{ return __builtin_offsetof(comet_native_{name}, {field[0]}); }}"
                  for field in struct._fields_]
    (tmp_path / "sizes.c").write_text('#include "comet_native.h"\n' + "\n".join(lines))
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{HEADER.parent}", f"-I{ROOT / 'include'}", "-o", tmp_path / "sizes.so",
                    tmp_path / "sizes.c"], check=True)
    sizes = ctypes.CDLL(str(tmp_path / "sizes.so"))
    for name, struct in structs.items():
        assert getattr(sizes, f"size_of_{name}")() == ctypes.sizeof(struct)
        for field in struct._fields_:
            assert getattr(sizes, f"{name}_{field[0]}")() == getattr(struct, field[0]).offset, (name, field[0])


def test_codes_are_those_of_the_header():
    text = (ROOT / "include/comet/codec.h").read_text() + (ROOT / "include/comet/base.h").read_text() + HEADER.read_text()
    pairs = {"DTYPE_F64": _library.F64, "DTYPE_BF16": _library.BF16, "LAYOUT_BLOCKED16": _library.BLOCKED16, "BOUND_RATIO": _library.RATIO,
             "BOUND_STDDEV": _library.STDDEV, "LEVEL_AUTO": _library.AUTO, "NATIVE_TORCH": _library.TORCH_THREADS,
             "NATIVE_GOMP": _library.GOMP_THREADS}
    for name, value in pairs.items():
        assert re.search(rf"COMET_{name} = {value}\b", text), name
    for value, name in _library.STATUS_NAMES.items():
        assert re.search(rf"COMET_ERROR_{name.upper()} = {value}\b", text), name
