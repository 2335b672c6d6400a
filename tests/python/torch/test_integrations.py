"""Packages that comet_torch serves are imported where they are used, and named where they are missing."""
import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_import_needs_none_of_them():
    done = run("import sys, comet_torch; comet_torch.compress; dir(comet_torch)\n"
               "from comet_torch import *\n"
               "assert not {'transformers', 'lightning', 'pytorch_lightning', 'accelerate'} & set(sys.modules)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package, use", [("transformers", "comet_torch.CometCallback"), ("lightning", "comet_torch.lightning")])
def test_missing_package_is_named(package, use):
    done = run("import sys\nfor name in ('transformers', 'lightning', 'pytorch_lightning'): sys.modules[name] = None\n"
               f"import comet_torch\n{use}")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: CometCallback") and f"pip install {package}" in done.stderr
