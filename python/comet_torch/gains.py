"""What an error in a saved tensor does to gradients: the gain of each role.

An error uniform in [-eb, eb] adds gain * eb^2 to the summed variance of a weight's gradient (parameter consumers), or the share
gain * eb^2 of energy to the gradient that is passed on (pass-on consumers). docs/theory.md has the derivations.
"""
import math

import torch

from .roles import Role

_SAMPLE = 4096
_TINY = 1e-30


def sample_of(tensor):
    """Up to 4096 of its elements, evenly spaced in memory, as float32."""
    flat = tensor.reshape(-1) if tensor.is_contiguous() else tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
    step = max(1, flat.numel() // _SAMPLE)
    return flat[::step][:_SAMPLE].float()


def energy(tensor):
    """The sum of squares, as a Python float."""
    t = tensor.detach()
    t = t if t.dtype in (torch.float32, torch.float64) else t.float()
    return float(torch.linalg.vector_norm(t)) ** 2


def _ratio(error, signal):
    """mean(error^2) / (3 mean(signal^2))"""
    return float(error.square().mean()) / (3 * max(float(signal.square().mean()), _TINY))


def _gelu(x):
    cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    pdf = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return _ratio(pdf * (2 - x * x), cdf + x * pdf)


def _silu(x):
    s = torch.sigmoid(x)
    d = s * (1 - s)
    return _ratio(d * (2 + x * (1 - 2 * s)), s + x * d)


def _hardswish(x):
    inside = (x.abs() < 3).float()
    return _ratio(inside / 3, inside * (2 * x + 3) / 6 + (x >= 3).float())


def _sigmoid(y):
    return _ratio(1 - 2 * y, y * (1 - y))


def _tanh(y):
    return _ratio(2 * y, 1 - y * y)


def _factor(x):
    return _ratio(torch.ones(1), x)


def _twice_factor(x):
    return 2 * _factor(x)


def _query(x):
    return 2 * float(x.square().mean()) / 3


_PASSED_ON = {Role.GELU: _gelu, Role.SILU: _silu, Role.HARDSWISH: _hardswish, Role.SIGMOID: _sigmoid, Role.TANH: _tanh,
              Role.FACTOR: _factor, Role.QUERY: _query, Role.VALUE: _twice_factor, Role.ATTENTION: _twice_factor, Role.SOFTMAX: _factor,
              Role.LOG_SOFTMAX: lambda x: 1 / 3}


def passed_on(role, sample):
    """The gain of a pass-on consumer from a sample of the tensor's values; None where the role has none."""
    gain = _PASSED_ON.get(role)
    return gain(sample) if gain else None


def weighted(taps, nonzero, gradient_energy):
    """A convolution or linear layer: each weight's gradient sums up errors of the non-zeros that it meets."""
    return taps * nonzero / 3 * gradient_energy


def batch_norm(dy, inverse_deviation, gamma, dgamma, dbeta):
    """(gain for gamma, gain passed on) of a batch norm whose input has the error. Tensors per channel but dy, which is N C ..."""
    sides = [d for d in range(dy.dim()) if d != 1]
    squares = dy.float().square().sum(sides).double()
    m = dy.numel() / dy.shape[1]
    r2 = inverse_deviation.double() ** 2
    g2 = r2 * (gamma.double() ** 2 if gamma is not None else 1.0)
    scale = float((squares * r2).sum()) / 3
    if dgamma is None or dbeta is None:
        return scale, float((r2).mean()) / 3 * 0.1
    s2, mean2, mean_squares = (dgamma.double() / m) ** 2, (dbeta.double() / m) ** 2, squares / m
    harm = float((g2 * (m * s2 + mean_squares) * r2).sum()) / 3
    passed = float((g2 * m * (mean_squares - mean2 - s2)).sum())
    return scale, harm / passed if passed > 0 else None


def layer_norm(dy, dx, inverse_deviation, gamma):
    """The same for a layer norm or RMS norm over the last dimensions; its rows have deviations of their own."""
    rows = inverse_deviation.numel()
    dy = dy.reshape(rows, -1).float()
    d = dy.shape[1]
    r2 = inverse_deviation.reshape(rows).double() ** 2
    scale = float((dy.square().sum(1).double() * r2).sum()) / 3
    g = dy * gamma.reshape(1, -1).float() if gamma is not None else dy
    squares, mean = g.square().sum(1).double(), g.mean(1).double()
    dx2 = dx.reshape(rows, -1).float().square().sum(1).double()
    along = (squares - d * mean**2 - dx2 / r2).clamp(min=0)
    passed = float(dx2.sum())
    harm = float((r2 * (along + squares / d) * r2).sum()) / 3
    return scale, harm / passed if passed > 0 else None
