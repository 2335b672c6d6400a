"""The noise of a mini-batch gradient, from a sample of its elements.

A running sum M = 0.9 M + g / ||g|| of up to 8192 elements has the direction of the mean gradient. Only the angle between M and the
next gradient and the length of that gradient are used, so neither a loss scale, nor clipping, nor accumulation changes the result,
even where a scale changes from step to step. docs/theory.md, section 9, has the derivation.
"""
import math

import torch

from .spread import taken

_BETA = 0.9
_SAMPLE = 8192
_FEW_WEIGHTS = 16  # below, the angle says little, and the distance from M is taken


def mean_noise(n_seen):
    """c_n: the variance of the mean of n gradients, weighted by powers of beta, in units of one gradient's."""
    faded = _BETA**n_seen
    return (1 - _BETA) * (1 + faded) / ((1 + _BETA) * (1 - faded))


def variance_of(gradient, mean, n_seen):
    """The summed variance of `gradient`, from itself and the sum M of n_seen gradients before it."""
    c = mean_noise(n_seen)
    g2, m2, gm = (float(torch.dot(a, b)) for a, b in ((gradient, gradient), (mean, mean), (gradient, mean)))
    n = gradient.numel()
    if n < _FEW_WEIGHTS:
        k = (1 - _BETA) / (1 - _BETA**n_seen)
        return (g2 - 2 * k * gm + k * k * m2) / (1 + c)
    if gm <= 0 or m2 <= 0 or g2 <= 0:
        return g2
    cos2 = gm * gm / (g2 * m2)
    if cos2 >= 1:
        return 0.0
    b = cos2 * (1 + c)
    mean_over_noise = (b + math.sqrt(b * b + 4 * (1 - cos2) * cos2 * c)) / (2 * (1 - cos2))
    return g2 / (1 + mean_over_noise) * n / (n - 1)


class GradientNoise:
    """Of one weight tensor in one node."""

    def __init__(self):
        self.mean = None
        self.n_seen = 0
        self.last_step = -1

    def seen(self, gradient, step):
        """Adds one gradient; its summed variance over all weights, or None while none came before it."""
        g = taken(gradient, _SAMPLE)
        if not bool(torch.isfinite(g).all()):
            return None
        if self.mean is None or step > self.last_step + 1 or self.mean.numel() != g.numel():
            self.mean, self.n_seen = torch.zeros_like(g), 0
        variance = variance_of(g, self.mean, self.n_seen) * gradient.numel() / g.numel() if self.n_seen else None
        length = float(torch.linalg.vector_norm(g)) if g.numel() >= _FEW_WEIGHTS else 1.0
        self.mean.mul_(_BETA).add_(g, alpha=1 / length if length > 0 else 0.0)
        self.n_seen += 1
        self.last_step = step
        return variance

    def state(self):
        return {"mean": None if self.mean is None else self.mean.clone(), "n_seen": self.n_seen, "last_step": self.last_step}

    def load(self, state):
        self.mean = None if state["mean"] is None else state["mean"].clone()
        self.n_seen, self.last_step = state["n_seen"], state["last_step"]
