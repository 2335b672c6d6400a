#!/usr/bin/env python3
"""Moves weights between safetensors files, which Comet reads and writes, and PyTorch's .pt files. Needs torch alone.

usage: tools/torch_weights.py to-torch IN.safetensors OUT.pt      then: model.load_state_dict(torch.load("OUT.pt"))
       tools/torch_weights.py to-comet IN.pt OUT.safetensors      then: comet import OUT.safetensors --model NAME -o ...

IN.pt holds a state dict, or a dict that has one under "state_dict" or "model". Names and shapes are kept as they are. From
Python, load(path) and save(tensors, path) do the same with dicts of tensors.
"""
import json
import struct
import sys

import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def load(path):
    """The tensors of a safetensors file by name, without those of an optimiser."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if name.startswith("optimiser."):
            continue
        begin, end = entry["data_offsets"]
        if end > len(data):
            raise ValueError(f"{path}: cut short inside {name}")
        dtype = DTYPES[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
        else:
            tensors[name] = torch.frombuffer(data[begin:end], dtype=dtype).reshape(entry["shape"])
    return tensors


def raw(tensor):
    """The bytes of a tensor."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.numel() == 0:
        return b""
    if flat.dtype == torch.bool:
        flat = flat.to(torch.uint8)
    if flat.dtype == torch.bfloat16:
        flat = flat.view(torch.int16)
    return flat.numpy().tobytes()


def save(tensors, path):
    """Writes a dict of tensors as a safetensors file."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        n_bytes = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + n_bytes]}
        offset += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(raw(tensor))


def state_dict_of(path):
    """The state dict in a .pt file."""
    content = torch.load(path, map_location="cpu")
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if isinstance(content, torch.nn.Module):
        content = content.state_dict()
    if not isinstance(content, dict) or not all(isinstance(t, torch.Tensor) for t in content.values()):
        raise ValueError(f"{path}: holds no state dict; save one with torch.save(model.state_dict(), ...)")
    return content


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("to-torch", "to-comet"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        if sys.argv[1] == "to-torch":
            torch.save(load(sys.argv[2]), sys.argv[3])
        else:
            save(state_dict_of(sys.argv[2]), sys.argv[3])
    except (OSError, ValueError, KeyError) as error:
        print(f"torch_weights.py: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
