"""The wheel: built by pip from a clone, installed in a fresh virtual environment, and used there without a compiler."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*words, **options):
    """The output of a command that must succeed."""
    ended = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def without_source_tree():
    """The environment, with nothing in it that would find the packages in the source tree."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COMET_NATIVE")}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The Python of a virtual environment that sees NumPy, pytest and torch of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, system_site_packages=True, with_pip=True)
    if sys.prefix != sys.base_prefix:  # packages of this virtual environment, which is not the system's
        site = run(folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        outer = [path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix)]
        Path(site, "outer.pth").write_text("\n".join(outer) + "\n")
    return folder / "bin/python"


@pytest.fixture(scope="module")
def wheel(environment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(environment, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT / "python", env=without_source_tree())
    wheels = list(folder.glob("*.whl"))
    assert len(wheels) == 1
    return wheels[0]


def test_one_wheel_serves_every_python_and_torch(wheel):
    version = (ROOT / "python/comet_codec/_version.py").read_text().split('"')[-2]
    assert wheel.name.startswith(f"comet_torch-{version}-py3-none-manylinux_2_")


def test_what_is_in_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"comet_codec", "comet_torch", f"comet_torch-{wheel.name.split('-')[1]}.dist-info"}
    assert [name for name in names if name.endswith(".so")] == ["comet_codec/libcomet_native.so"]
    sources = {str(path.relative_to(ROOT / "python")) for package in ("comet_codec", "comet_torch")
               for path in (ROOT / "python" / package).rglob("*.py")}
    assert sources <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_pip_install_from_the_clone_and_use_without_a_compiler(environment, wheel, tmp_path):
    run(environment, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", ROOT / "python", env=without_source_tree())
    code = ("import comet_codec, comet_torch, numpy, os; x = numpy.arange(1000, dtype='f4'); "
            "assert abs(comet_codec.decompress(comet_codec.compress(x, eb=1)) - x).max() <= 1; "
            "assert comet_codec.__version__ == comet_torch.__version__; "
            "print(comet_codec.__file__, comet_torch.__file__)")
    found = run(environment, "-c", code, cwd=tmp_path, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}).split()
    assert all(path.startswith(str(environment.parent.parent)) for path in found)


def test_the_suite_of_the_codec_on_the_installed_package(environment, wheel):
    run(environment, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    told = run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests/python/codec",
               env={**without_source_tree(), "COMET_TEST_INSTALLED": "1"})
    assert " passed" in told


def test_an_sdist_is_refused_with_the_reason(environment, tmp_path):
    code = "import wheel_backend; wheel_backend.build_sdist('.')"
    (tmp_path / "scikit_build_core.py").write_text(
        "class build: get_requires_for_build_editable = get_requires_for_build_wheel = None\n"
        "import sys; sys.modules['scikit_build_core.build'] = build\n")
    ended = subprocess.run([environment, "-c", code], cwd=ROOT / "python", env={**without_source_tree(), "PYTHONPATH": str(tmp_path)},
                           capture_output=True, text=True)
    assert ended.returncode == 1 and "pip wheel ./python" in ended.stderr
