"""What an error in a saved tensor does to gradients: the gain of each role.

An error that is independent and uniform in [-eb, eb] adds gain * eb^2 to the summed variance of a weight's gradient (parameter
consumers), or the share gain * eb^2 of energy to the gradient that is passed on (pass-on consumers). docs/theory.md has the
derivations: sections 2 and 5, and section 9 for what transformers save. Where a function takes samples, they are of the same
positions. A gain that cannot be known (no gradient arrives) is None.
"""
import math

import torch

from .roles import Role
from .spread import rows_between, runs_of

_ELEMENTS = 1 << 18
_BLOCK_ELEMENTS = 1 << 15  # of rows in double precision at a time


def energy(tensor):
    """The sum of squares, as a Python float; of a large tensor from a quarter of a million elements."""
    t = runs_of(tensor, _ELEMENTS)
    squares = float(torch.linalg.vector_norm(t if t.dtype in (torch.float32, torch.float64) else t.float())) ** 2
    return squares * (tensor.numel() / t.numel()) if t.numel() else 0.0


def channel_energies(dy):
    """The sum of squares of each channel of N C ..., in double precision; of a large tensor from some of its rows."""
    sides = [d for d in range(dy.dim()) if d != 1]
    step = rows_between(dy.shape[2], dy.numel(), 4 * _ELEMENTS) if dy.dim() > 2 else 1
    part = dy.detach()[:, :, ::step] if step > 1 else dy.detach()
    squares = torch.linalg.vector_norm(part.float(), dim=sides).double().square()
    return squares * (dy.numel() / part.numel())


def ratio(harm, passed):
    """harm / (3 passed); a gradient of zero that no error reaches has the gain 0."""
    if not math.isfinite(harm) or not math.isfinite(passed):
        return None
    return harm / passed / 3 if passed > 0 else (0.0 if harm == 0 else None)


# ---- parameter consumers ----


def weighted(taps, nonzero, gradient_energy):
    """A convolution or linear layer: each weight's gradient sums up errors of the non-zeros that it meets."""
    return taps * nonzero / 3 * gradient_energy


# ---- elementwise: dx = dy f'(x), whose error is dy f''(x) e ----


def _gelu(x):
    cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    pdf = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return cdf + x * pdf, pdf * (2 - x * x)


def _silu(x):
    s = torch.sigmoid(x)
    d = s * (1 - s)
    return s + x * d, d * (2 + x * (1 - 2 * s))


def _hardswish(x):
    inside = (x.abs() < 3).float()
    return inside * (2 * x + 3) / 6 + (x >= 3).float(), inside / 3


# The slope of hardswish jumps by 1/2 at 3 and -3: an error that crosses does harm of order eb, not eb^2.
_JUMP, _KINK, _NEAR = 0.5, 3.0, 0.25


def _sigmoid(y):
    return y * (1 - y), 1 - 2 * y


def _tanh(y):
    return 1 - y * y, -2 * y


ELEMENTWISE = {Role.GELU: _gelu, Role.SILU: _silu, Role.HARDSWISH: _hardswish, Role.SIGMOID: _sigmoid, Role.TANH: _tanh}


# The derivative of a result with respect to its log-odds, in units of the function's slope there; and the largest such derivative.
_OF_ODDS = {Role.SIGMOID: 1.0, Role.TANH: 0.5}
MOST_OF_ODDS = {Role.SIGMOID: 0.25, Role.TANH: 0.5}


def elementwise(role, x, dy, eb, of_odds=False):
    """From samples of what is stored, within eb, and of the gradient that arrives. `of_odds`: the error is that of the log-odds."""
    slope, bend = ELEMENTWISE[role](x)
    if of_odds:
        bend = bend * slope * _OF_ODDS[role]
    harm = energy(dy * bend)
    if role is Role.HARDSWISH:
        near = ((x.abs() - _KINK).abs() < _NEAR).float()
        harm += 3 * _JUMP**2 * energy(dy * near) / (2 * _NEAR) / (2 * eb)
    return ratio(harm, energy(dy * slope))


# ---- products ----


def product(n_summed, nonzero, dy_energy, passed_energy):
    """A factor of a product; `passed_energy` is that of the other factor's gradient. A matrix product sums up n_summed errors of each
    element of dy for every row of that gradient; an elementwise product 1."""
    return ratio(n_summed * nonzero * dy_energy, passed_energy)


# ---- norms ----


def batch_norm(dy, inverse_deviation, gamma, dgamma, dbeta):
    """(gain for gamma, gain passed on) of a batch norm whose input, N C ..., has the error."""
    squares = channel_energies(dy)
    m = dy.numel() / dy.shape[1]
    r2 = inverse_deviation.double().square()
    g2 = r2 * (gamma.double().square() if gamma is not None else 1.0)
    s2, mean2, mean_squares = (dgamma.double() / m).square(), (dbeta.double() / m).square(), squares / m
    harm = float((g2 * (m * s2 + mean_squares) * r2).sum())
    passed = float((g2 * m * (mean_squares - mean2 - s2)).clamp(min=0).sum())
    return float((squares * r2).sum()) / 3, ratio(harm, passed)


def normalised_rows(g, dx, inverse_deviation, of_row):
    """The gain passed on by layer norm, RMS norm and group norm, from some of their rows: g = dy * gamma, dx and 1 / deviation.
    `of_row`: the error is of the normalised row, as for the form "row"; else it is of the input."""
    harm = passed = 0.0
    step = max(1, _BLOCK_ELEMENTS // g.shape[1])
    for first in range(0, len(g), step):
        rows = slice(first, first + step)
        one = _normalised_block(g[rows].double(), dx[rows].double(), inverse_deviation[rows].double(), of_row)
        harm, passed = harm + one[0], passed + one[1]
    return ratio(harm, passed)


def _normalised_block(g, dx, r, of_row):
    """(harm, energy passed on) of some rows, in double precision."""
    d = g.shape[1]
    squares, mean, passed = g.square().sum(1), g.mean(1), dx.square().sum(1)
    # dx = r (g - mean(g) - xhat s), so that d s^2 is what ||dx||^2 / r^2 lacks. A row without a deviation says nothing.
    along = (squares - d * mean.square() - passed / r.square()).clamp(min=0)
    harm = r.square() * (along + squares / d) * (1.0 if of_row else r.square())
    return float(harm.sum()), float(passed.sum())


# ---- softmax ----


def softmax(p, dy):
    """Rows of the result and of its gradient: dx = p (dy - p . dy). Zeros have no error."""
    p, dy = p.double(), dy.double()
    centred = dy - (p * dy).sum(-1, keepdim=True)
    stored = (p != 0).double()
    harm = (stored * centred.square()).sum() + (p.square() * (stored * dy.square()).sum(-1, keepdim=True)).sum()
    return ratio(float(harm), float((p * centred).square().sum()))


def log_softmax(y, dy):
    """Rows of the result and of its gradient: dx = dy - exp(y) sum(dy), where the error is of y."""
    p, total = torch.exp(y.double()), dy.double().sum(-1, keepdim=True)
    return ratio(float((p * total).square().sum()), float((dy.double() - p * total).square().sum()))
