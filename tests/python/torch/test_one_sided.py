"""Errors of one sign in all rows: the gradient of a bias is a sum over rows, in which they would add up.

A bound on the energy that one row passes on says nothing of that. Each net here has rows that are nearly alike, and values that lie close
together at an end of their range, as in nets that have learnt how frequent things are. Bounds have risen by then as far as they may.
"""
import pytest
import torch
import torch.nn.functional as F

import comet_torch

N_STEPS, N_COMPARED = 40, 6


def errors_of(model, batch, loss):
    """[{name of a parameter: (gradient with Comet, exact gradient)}] of the last steps, and the report."""
    optimiser, found, batches = torch.optim.SGD(model.parameters(), 0.0), [], []
    with comet_torch.compress(model, optimiser) as mem:
        for step in range(N_STEPS):
            batches.append(batch())
            optimiser.zero_grad()
            loss(model, *batches[-1]).backward()
            optimiser.step()
            found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    pairs = []
    for found_then, one in list(zip(found, batches))[-N_COMPARED:]:
        model.zero_grad()
        loss(model, *one).backward()
        pairs.append({name: (found_then[name], p.grad.clone()) for name, p in model.named_parameters()})
    return pairs, mem.report()


def distance(pairs, name):
    """Of the last step, relative."""
    found, exact = pairs[-1][name]
    return float((found - exact).norm() / exact.norm())


def lasting(pairs, name):
    """The mean error of each element over the steps, in deviations of its gradient: the largest."""
    found, exact = (torch.stack(gradients) for gradients in zip(*(pair[name] for pair in pairs)))
    return float(((found - exact).mean(0).abs() / exact.std(0)).max())


def test_frequent_and_rare_classes():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 300))
    with torch.no_grad():
        model[0].bias.copy_(-0.02 * torch.arange(300))
        model[0].weight.mul_(0.05)

    def batch():
        x = torch.randn(2048, 16)
        return x, torch.multinomial(torch.softmax(model(x).detach(), -1), 1)[:, 0]

    pairs, report = errors_of(model, batch, lambda model, x, target: F.cross_entropy(model(x), target))
    assert "log-probabilities" in report
    assert distance(pairs, "0.bias") < 0.05


class Attention(torch.nn.Module):
    """One key has half of the attention, and the other 999 share the rest."""

    def __init__(self):
        super().__init__()
        self.scores, self.values, self.out = torch.nn.Linear(16, 1000), torch.nn.Linear(32, 8), torch.nn.Linear(8, 8)
        self.memory = torch.randn(1000, 32)
        with torch.no_grad():
            self.scores.weight.mul_(0.05)
            self.scores.bias.zero_()[0] = 999.0
            self.scores.bias[0].log_()

    def forward(self, x):
        return self.out(torch.softmax(self.scores(x), -1) @ self.values(self.memory))


def test_attention_that_is_nearly_even():
    torch.manual_seed(0)
    model = Attention()

    def batch():
        x = torch.randn(2048, 16)
        return x, torch.randn(2048, 8) + model(x).detach()

    pairs, _ = errors_of(model, batch, lambda model, x, target: F.mse_loss(model(x), target))
    assert distance(pairs, "values.bias") < 0.05


class Gates(torch.nn.Module):
    """From gates that are always closed to gates that are half open."""

    def __init__(self, function):
        super().__init__()
        self.function, self.gates, self.out = function, torch.nn.Linear(16, 64), torch.nn.Linear(64, 8)
        with torch.no_grad():
            self.gates.bias.copy_(torch.linspace(-6, 1, 64))
            self.gates.weight.mul_(0.3)

    def forward(self, x):
        return self.out(self.function(self.gates(x)))


@pytest.mark.parametrize("function", [torch.sigmoid, torch.tanh])
def test_closed_gates(function):
    torch.manual_seed(0)
    model = Gates(function)

    def batch():
        x = torch.randn(8192, 16)
        return x, 0.3 * torch.randn(8192, 8) + model(x).detach()

    pairs, report = errors_of(model, batch, lambda model, x, target: F.mse_loss(model(x), target))
    assert "log-odds" in report
    assert max(lasting(pairs, "gates.bias"), lasting(pairs, "gates.weight")) < 0.6


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_masked_keys_stay_masked(memory_format):
    """Dither moves zeros; those of a mask come back."""
    torch.manual_seed(0)
    scores, weights = torch.randn(4, 6, 32, 32), torch.randn(4, 6, 32, 32)
    scores.masked_fill_(torch.ones(32, 32, dtype=torch.bool).triu(1), -float("inf"))
    scores = scores.to(memory_format=memory_format).requires_grad_()
    with comet_torch.compress(eb=0.01):
        y = torch.softmax(scores, -1)
        (y * weights).sum().backward()
    exact = torch.autograd.grad((torch.softmax(scores, -1) * weights).sum(), scores)[0]
    masked = y == 0
    assert bool((scores.grad[masked] == 0).all()) and float((scores.grad - exact).abs().max()) > 0
    assert float((scores.grad - exact).norm() / exact.norm()) < 0.2


def test_errors_of_two_steps_are_not_the_same():
    scores = torch.randn(64, 512)
    weights, errors = torch.randn(64, 512), []
    with comet_torch.compress(eb=0.01):
        for _ in range(2):
            leaf = scores.clone().requires_grad_()
            torch.softmax(leaf, -1).backward(weights)
            errors.append(leaf.grad)
    exact = torch.autograd.grad(torch.softmax(leaf, -1), leaf, weights)[0]
    a, b = (error - exact for error in errors)
    assert float(a.norm()) > 0 and abs(float((a * b).sum() / (a.norm() * b.norm()))) < 0.1
