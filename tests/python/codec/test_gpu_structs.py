"""comet_codec._gpu declares the structs of include/comet/gpu.h and codec.h as they are in C."""
import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from comet_codec import _gpu

ROOT = Path(__file__).resolve().parents[3]
STRUCTS = {"comet_tensor": _gpu.Tensor, "comet_params": _gpu.Params, "comet_gpu_pointer": _gpu.Pointer, "comet_gpu_plan": _gpu.Plan,
           "comet_gpu_result": _gpu.Result, "comet_gpu_arena": _gpu.Arena}


def test_structs_are_those_of_c(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    lines = ["#include <stddef.h>", '#include "comet/gpu.h"', "unsigned long head(void) { return COMET_GPU_ARENA_HEAD; }"]
    for name, struct in STRUCTS.items():
        lines.append(f"unsigned long size_{name}(void) {{ return sizeof({name}); }}")
        lines += [f"unsigned long {name}_{field[0]}(void) {{ return offsetof({name}, {field[0]}); }}" for field in struct._fields_]
    source, library = tmp_path / "structs.c", tmp_path / "structs.so"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, "-shared", "-fPIC", "-I", str(ROOT / "include"), "-o", str(library), str(source)], check=True)
    found = ctypes.CDLL(str(library))
    assert found.head() == _gpu.ARENA_HEAD and ctypes.sizeof(_gpu.Result) == _gpu.RESULT_BYTES
    for name, struct in STRUCTS.items():
        assert getattr(found, f"size_{name}")() == ctypes.sizeof(struct), name
        for field in struct._fields_:
            assert getattr(found, f"{name}_{field[0]}")() == getattr(struct, field[0]).offset, (name, field[0])
