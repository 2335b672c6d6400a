"""The noise of each parameter's mini-batch gradient, from a sample of its elements.

A running mean M = 0.9 M + g of up to 4096 elements stands for the mean gradient; the distance of the next gradient from it gives the
variance (adapt_noise in docs/theory.md). Gradients are those that arrive at the parameter in one backward pass: before clipping, and
for each micro-batch, so that the scale is that of the gradients which the errors disturb.
"""
import torch

_BETA = 0.9
_SAMPLE = 4096


class GradientNoise:
    def __init__(self, parameter):
        self.n = parameter.numel()
        self.step = max(1, self.n // _SAMPLE)
        self.mean = None
        self.n_seen = 0
        self.variance = None  # summed over all weights; None until two gradients were seen
        self.handle = parameter.register_hook(self._seen)

    def _seen(self, gradient):
        if gradient.is_sparse or not gradient.is_floating_point():
            return
        g = gradient.detach().reshape(-1)[:: self.step].float()
        if self.mean is None or self.mean.numel() != g.numel():
            self.mean, self.n_seen = torch.zeros_like(g), 0
        if self.n_seen > 0:
            collected = 1 - _BETA**self.n_seen
            distance = float((g - self.mean * ((1 - _BETA) / collected)).square().sum())
            c = (1 - _BETA) * (1 + _BETA**self.n_seen) / ((1 + _BETA) * collected)
            self.variance = distance / (1 + c) * self.n / g.numel()
        self.mean.mul_(_BETA).add_(g)
        self.n_seen += 1

    def state(self):
        return {"mean": self.mean, "n_seen": self.n_seen, "variance": self.variance}

    def load(self, state):
        self.mean, self.n_seen, self.variance = state["mean"], state["n_seen"], state["variance"]

    def remove(self):
        self.handle.remove()
