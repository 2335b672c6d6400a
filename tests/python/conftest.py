"""Where the tests find the packages and the program."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

if not os.environ.get("COMET_TEST_INSTALLED"):
    sys.path.insert(0, str(ROOT / "python"))
    # Programs that tests start find the packages, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="session")
def comet_program():
    """The program `comet`: COMET_PROGRAM, else that of the release build."""
    named = os.environ.get("COMET_PROGRAM")
    path = Path(named) if named else ROOT / "build" / "comet"
    if not path.is_file():
        if named:
            pytest.fail(f"COMET_PROGRAM names {named}, which is not there")
        pytest.skip(f"{path} is not built")
    return str(path)
