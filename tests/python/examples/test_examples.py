"""Each program of examples/pytorch learns with compressed activations, and stores less than it would."""
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "pytorch"
# Arguments that keep it short, what must be installed, and the least ratio of stored bytes.
EXAMPLES = {
    "resnet": ("--n 256 --batch 32 --net resnet18 --rate 0.02", "torchvision", 3),
    "unet": ("--steps 12 --batch 4 --side 48 --width 8", "torch", 3),
    "vit": ("--steps 12 --batch 16 --width 64 --depth 2 --heads 2", "torch", 2),
    "gpt": ("--steps 16 --batch 8 --length 64 --width 64 --depth 2", "torch", 2),
    "lora": ("--steps 30 --batch 8 --length 64 --width 64 --depth 2 --rate 0.02", "torch", 2),
    "hf_trainer": ("--steps 16 --batch 8 --length 64 --width 64 --depth 2 --out {folder}", "transformers", 2),
}


def run(name, words, folder):
    environment = dict(os.environ, OMP_NUM_THREADS="2")
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--threads", "2", *words.format(folder=folder).split()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1]), done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_learns_and_stores_less(name, tmp_path):
    words, module, ratio = EXAMPLES[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    result, text = run(name, words, tmp_path)
    assert result["last_loss"] < result["first_loss"]
    assert result["saved_mb"] > ratio * result["stored_mb"] > 0
    assert "bounds" in text  # the head of the report


def test_raw_stores_nothing(tmp_path):
    result, _ = run("gpt", "--raw --steps 2 --batch 2 --length 16 --width 16 --depth 1 --heads 1", tmp_path)
    assert result["stored_mb"] == 0
    assert result["last_loss"] > 0


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_example_is_short(file):
    assert len(file.read_text().splitlines()) < 100
