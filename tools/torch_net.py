"""Nets of Comet's text format (docs/net_format.md) in PyTorch, and numbers by the formula of tests/train/training.c."""
import fnmatch
import math

import numpy
import torch
import torch.nn.functional as F

# ---- numbers by formula: the same bits as tests/train/training.c ----


def hash_name(name):
    h = 2166136261
    for byte in name.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    return h


def hash_numbers(first, n):
    """Wellons' lowbias32 of first, first + 1, ..."""
    x = numpy.arange(n, dtype=numpy.uint32) + numpy.uint32(first)
    x ^= x >> numpy.uint32(16)
    x *= numpy.uint32(0x7FEB352D)
    x ^= x >> numpy.uint32(15)
    x *= numpy.uint32(0x846CA68B)
    x ^= x >> numpy.uint32(16)
    return x


def formula(name, offset, bound, shape):
    """offset + bound * u in float32, u uniform in [-1, 1) by a hash of name and position."""
    k = (hash_numbers(hash_name(name), math.prod(shape)) >> numpy.uint32(8)).astype(numpy.int64) - 8388608
    scale = float(numpy.float32(bound / 8388608))
    return torch.from_numpy((offset + k * scale).astype(numpy.float32).reshape(shape))


def formula_labels(name, classes, n):
    return torch.from_numpy((hash_numbers(hash_name(name), n) % numpy.uint32(classes)).astype(numpy.int64))


# ---- nets ----


def matches(pattern, name):
    parts = name.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[: n + 1]), pattern) for n in range(len(parts)))



def pair(text):
    parts = [int(p) for p in text.split("x")]
    return (parts[0], parts[-1])


class Layer:
    def __init__(self, name, kind, inputs, options):
        self.name, self.kind, self.inputs, self.options = name, kind, inputs, options

    def number(self, key, default):
        return float(self.options.get(key, default))

    def sides(self, key, default):
        return pair(self.options.get(key, default))

    def yes(self, key, default):
        return self.options.get(key, default) == "yes"


class Net:
    """Layers, parameters and running statistics by torch's names. Dropout does nothing."""

    def __init__(self, text):
        self.layers, self.name, self.input = [], "net", None
        self.frozen = set()  # names of parameters that are not trained
        for line in text.splitlines():
            words = line.split("#")[0].replace(" = ", "=", 1).split() if line.strip() else []
            if not words:
                continue
            if words[0] == "net":
                self.name = words[1]
            elif words[0] == "input":
                self.input = tuple(int(w) for w in words[1:4])
            else:
                self.add(words)
        self.parameters, self.statistics = {}, {}
        self.infer()

    def add(self, words):
        name, kind = words[0].split("=")
        inputs = [w for w in words[1:] if "=" not in w]
        before = self.layers[-1].name if self.layers else "input"
        self.layers.append(Layer(name, kind, inputs or [before], dict(w.split("=") for w in words[1:] if "=" in w)))

    def infer(self):
        """Makes the parameters from the shapes of a batch of two."""
        with torch.no_grad():
            self.classes = self.forward(torch.zeros(2, *self.input), create=True).shape[1]

    def make_parameters(self, layer, channels):
        name, out = layer.name, int(layer.options.get("out", 0))
        if layer.kind == "batch_norm":
            self.parameters[name + ".weight"] = torch.ones(channels)
            self.parameters[name + ".bias"] = torch.zeros(channels)
            self.statistics[name + ".running_mean"] = torch.zeros(channels)
            self.statistics[name + ".running_var"] = torch.ones(channels)
            return
        shape = (out, channels)
        if layer.kind == "conv":
            shape = (out, channels // int(layer.options.get("groups", 1)), *layer.sides("kernel", None))
        self.parameters[name + ".weight"] = torch.zeros(shape)
        if layer.yes("bias", "yes"):
            self.parameters[name + ".bias"] = torch.zeros(out)

    def apply(self, layer, values):
        x, name, p = values[0], layer.name, self.parameters
        kind = layer.kind
        if kind == "conv":
            return F.conv2d(x, p[name + ".weight"], p.get(name + ".bias"), layer.sides("stride", "1"), layer.sides("pad", "0"),
                            layer.sides("dilation", "1"), int(layer.options.get("groups", 1)))
        if kind == "linear":
            return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))
        if kind == "batch_norm":
            moves = not {name + ".weight", name + ".bias"} <= self.frozen  # a frozen one is a fixed function
            return F.batch_norm(x, self.statistics[name + ".running_mean"], self.statistics[name + ".running_var"],
                                p[name + ".weight"], p[name + ".bias"], moves, layer.number("momentum", 0.1),
                                layer.number("eps", 1e-5))
        if kind in ("max_pool", "avg_pool"):
            pool = F.max_pool2d if kind == "max_pool" else F.avg_pool2d
            kernel = layer.options["kernel"]
            return pool(x, pair(kernel), layer.sides("stride", kernel), layer.sides("pad", "0"), ceil_mode=layer.yes("ceil", "no"))
        if kind == "lrn":
            return F.local_response_norm(x, int(layer.options.get("size", 5)), layer.number("alpha", 1e-4),
                                         layer.number("beta", 0.75), layer.number("k", 1))
        if kind == "multiply":
            return x * values[1]
        simple = {"relu": F.relu, "relu6": F.relu6, "silu": F.silu, "sigmoid": torch.sigmoid, "dropout": lambda v: v,
                  "global_avg_pool": lambda v: F.adaptive_avg_pool2d(v, 1), "flatten": lambda v: v.flatten(1)}
        if kind == "add":
            return x + values[1]
        return torch.cat(values, 1) if kind == "concat" else simple[kind](x)

    def forward(self, images, create=False):
        values = {"input": images}
        for layer in self.layers:
            inputs = [values[i] for i in layer.inputs]
            if create and layer.kind in ("conv", "linear", "batch_norm"):
                self.make_parameters(layer, inputs[0].shape[1])
            values[layer.name] = self.apply(layer, inputs)
        return values[self.layers[-1].name]

    def formula_weights(self, salt, dtype, residual=1.0):
        """`residual` is the scale of the batch norms that end a bottleneck's branch: 1, or less for a calmer deep net."""
        for name, p in self.parameters.items():
            if p.dim() > 1:
                filled = formula(salt + name, 0, math.sqrt(6 / (p.numel() / p.shape[0])), p.shape)
            else:
                scale = residual if name.endswith(".bn3.weight") else 1.0
                filled = formula(salt + name, scale if name in self.scales() else 0, 0.125 * scale, p.shape)
            self.parameters[name] = filled.to(dtype).requires_grad_(name not in self.frozen)
        for name, s in self.statistics.items():
            self.statistics[name] = (torch.ones if name.endswith("_var") else torch.zeros)(s.shape, dtype=dtype)

    def freeze(self, patterns):
        """As --freeze: patterns with commas between them, ! takes out, and a pattern may match the part before a dot."""
        self.frozen = {name for name in self.parameters if self.last_match(patterns, name)}

    def last_match(self, patterns, name):
        frozen = False
        for pattern in filter(None, patterns.split(",")):
            if matches(pattern.lstrip("!"), name):
                frozen = not pattern.startswith("!")
        return frozen

    def trained(self):
        return {name: p for name, p in self.parameters.items() if name not in self.frozen}

    def scales(self):
        return {layer.name + ".weight" for layer in self.layers if layer.kind == "batch_norm"}


def read_nets(text):
    """The nets of a file of several, each begun by its line "net NAME"."""
    parts = ("\n" + text).split("\nnet ")[1:]
    return [Net("net " + part) for part in parts]
