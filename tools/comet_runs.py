"""Short training runs and what they leave: shared by tools/compare_builds and tests/train/golden_weights.

Standard library only. A run is judged by the tensors of its last checkpoint (weights, running statistics, the optimiser's moments),
never by its exit code or its words: a few steps of a small net may end with exit code 1, since the loss did not fall.
"""
import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess

OPERATOR_NETS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "train" / "operators.nets"


class Failed(Exception):
    """A program did not do what was asked; the text says which and what it printed last."""


def environment(**more):
    """OpenMP's threads sleep while they wait: several runs share the cores."""
    return {**os.environ, "LC_ALL": "C", "OMP_WAIT_POLICY": "passive", **more}


def run(program, *words):
    """Standard output, as bytes, of a program that must end with exit code 0."""
    done = subprocess.run([program, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, env=environment(), check=False)
    if done.returncode != 0:
        raise Failed(f"{program} {words[0]}: exit {done.returncode}: {last_line(done.stderr)}")
    return done.stdout


def last_line(output):
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "(no output)"


# ---- nets and data ----


def operator_nets():
    """The small nets of tests/train/operators.nets: pairs of a name and the text."""
    parts = re.split(r"(?m)^(?=net )", OPERATOR_NETS.read_text())[1:]
    return [(part.split()[1], part) for part in parts]


def write_npy(path, kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def classes_of(program, net_file):
    """How many scores a net gives."""
    total = run(program, "models", "--net", net_file, "--json").decode().splitlines()[-1]
    shape = json.loads(total)["output"]
    size = 1
    for side in shape:
        size *= side
    return size


def write_net(program, text, n_images, folder):
    """Writes a net and images of its shape; returns the options that train it on them."""
    net = folder / "net.txt"
    net.write_text(text)
    shape = [int(side) for side in re.search(r"(?m)^input (\d+) (\d+) (\d+)", text).groups()]
    n_classes = classes_of(program, net)
    size = n_images * shape[0] * shape[1] * shape[2]
    noise = hashlib.shake_256(text.encode()).digest(size)  # the same bytes with every version of Python
    images = bytes(16 * (i * n_images // size % n_classes) + byte % 64 for i, byte in enumerate(noise))
    names = [folder / f"{name}.npy" for name in ("x", "y")]
    write_npy(names[0], "|u1", [n_images, *shape], images)
    write_npy(names[1], "|u1", [n_images], bytes(i % n_classes for i in range(n_images)))
    pair = ",".join(map(str, names))
    return ["--net", net, "--data", f"npy:{pair},{pair}"]


def synthetic(model, image, batch, n_steps):
    """Options that train a net of the zoo for so many steps, in one epoch, on made-up images."""
    size = ["--image", image] if image else []
    return ["--model", model, "--data", "synthetic", "--classes", 10, "--images", max(batch * n_steps, 10), "--batch", batch, *size]


# ---- runs ----


def train(program, options, folder):
    """Trains into a folder and returns its last checkpoint. The options must give the rate: its default may change."""
    done = subprocess.run([program, "train", *map(str, options), "--out", folder], stdin=subprocess.DEVNULL, capture_output=True,
                          env=environment(), check=False)
    checkpoint = folder / "last.safetensors"
    if done.returncode not in (0, 1) or not checkpoint.exists():
        raise Failed(f"{program} train: exit {done.returncode}: {last_line(done.stderr)}")
    return checkpoint


def tensors(path):
    """Names of a safetensors file's tensors, each with a hash of type, shape and bytes."""
    hashes = {}
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                file.seek(8 + length + begin)
                digest = hashlib.sha256(f"{entry['dtype']} {entry['shape']} ".encode())
                digest.update(file.read(end - begin))
                hashes[name] = digest.hexdigest()
    return hashes


def difference(before, after):
    """What differs first between two results of tensors(), or None."""
    for name in sorted(before.keys() | after.keys()):
        if name not in after or name not in before:
            return f"only one has '{name}'"
        if before[name] != after[name]:
            n = sum(before.get(other) != after.get(other) for other in before.keys() | after.keys())
            return f"{n} of {len(before)} tensors differ, '{name}' among them"
    return None
