"""Build backend of the wheel: scikit-build-core, with a manylinux tag.

The library is plain C and links libc, libm and threads only, so a wheel serves every Python and every torch on systems whose glibc is
at least the one it was built with: its tag is py3-none-manylinux_2_36_x86_64 on Debian 12. For older systems build it there.

The C sources are in the folders beside this one. A wheel is therefore built in a clone, `pip wheel ./python`, not from an sdist.
"""

import os
import platform
from pathlib import Path

from scikit_build_core import build as _scikit
from scikit_build_core.build import get_requires_for_build_editable, get_requires_for_build_wheel

__all__ = ["build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_wheel"]


def _check_sources():
    if not (Path(__file__).resolve().parent.parent / "include" / "comet" / "codec.h").is_file():
        raise SystemExit("comet-torch: the C sources of Comet are missing; clone the whole repository and run `pip install ./python` in it")


def _manylinux():
    """The platform tag of this system's glibc, or None where its C library is another."""
    name, version = platform.libc_ver()
    return f"manylinux_{version.replace('.', '_')}_{platform.machine()}" if name == "glibc" else None


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _check_sources()
    tag = _manylinux()
    if tag:
        os.environ.setdefault("_PYTHON_HOST_PLATFORM", tag)
    return _scikit.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _check_sources()
    return _scikit.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("comet-torch has no sdist: its C sources are outside of python/. Build a wheel in a clone: pip wheel ./python")
