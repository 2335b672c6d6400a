"""The variance of a gradient from its angle with the mean of those before: against gradients whose variance is known."""
import pytest
import torch

from comet_torch.noise import GradientNoise, mean_noise, variance_of


def gradients(n, elements, mean_over_noise, generator):
    """n gradients whose summed variance is `elements`, with a mean of the energy mean_over_noise * elements; elements differ."""
    deviation = torch.rand(elements, generator=generator) + 0.2
    deviation *= (elements / deviation.square().sum()).sqrt()
    mean = torch.randn(elements, generator=generator)
    mean *= (mean_over_noise * elements / mean.square().sum()).sqrt()
    return [mean + deviation * torch.randn(elements, generator=generator) for _ in range(n)]


@pytest.mark.parametrize("mean_over_noise", [0.0, 0.01, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("n_seen", [1, 5, 40])
def test_variance(mean_over_noise, n_seen):
    generator = torch.Generator().manual_seed(n_seen)
    elements, repeats, found = 4096, 30, []
    for _ in range(repeats):
        *before, last = gradients(n_seen + 1, elements, mean_over_noise, generator)
        mean = torch.zeros(elements)
        for g in before:
            mean.mul_(0.9).add_(g)
        found.append(variance_of(last, mean, n_seen) / elements)
    assert sum(found) / repeats == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("scales", [(1,) * 12, (3.0,) * 12, (1, 1, 1, 1, 1, 1, 1024, 1024, 512, 512, 512, 512)])
def test_scale_does_not_matter(scales):
    generator = torch.Generator().manual_seed(1)
    noise, found = GradientNoise(), []
    for step, (g, scale) in enumerate(zip(gradients(len(scales), 5000, 0.5, generator), scales)):
        variance = noise.seen(g * scale, step)
        if variance is not None:
            found.append(variance / scale**2 / 5000)
    assert len(found) == len(scales) - 1
    for one in found:
        assert one == pytest.approx(1, rel=0.2)


def test_sample_stands_for_the_whole():
    """A weight whose taps and channels have variances of their own, larger than the sample."""
    generator = torch.Generator().manual_seed(2)
    scale = torch.rand(64, 1, 1, 1, generator=generator) * torch.rand(1, 64, 1, 1, generator=generator)
    scale = scale * torch.rand(3, 3, generator=generator)
    noise, found = GradientNoise(), []
    for step in range(20):
        variance = noise.seen(scale * torch.randn(64, 64, 3, 3, generator=generator), step)
        found.append(variance)
    whole = float(scale.square().sum())
    assert sum(found[1:]) / 19 == pytest.approx(whole, rel=0.1)


def test_few_weights():
    generator = torch.Generator().manual_seed(3)
    noise = GradientNoise()
    found = [noise.seen(2.0 + 0.5 * torch.randn(1, generator=generator), step) for step in range(400)]
    assert sum(found[50:]) / 350 == pytest.approx(0.25, rel=0.2)


def test_old_mean_is_forgotten():
    noise = GradientNoise()
    for step in range(5):
        noise.seen(torch.ones(100), step)
    assert noise.seen(torch.ones(100), 30) is None
    assert noise.seen(torch.ones(100), 31) == pytest.approx(0, abs=1e-4)


def test_gradients_that_are_not_finite_are_left_out():
    noise = GradientNoise()
    noise.seen(torch.ones(100), 0)
    assert noise.seen(torch.full((100,), float("inf")), 1) is None
    assert noise.n_seen == 1


def test_state_continues_to_the_bit():
    generator = torch.Generator().manual_seed(4)
    g = gradients(8, 1000, 1.0, generator)
    noise, resumed = GradientNoise(), GradientNoise()
    for step in range(4):
        noise.seen(g[step], step)
    resumed.load(noise.state())
    for step in range(4, 8):
        assert noise.seen(g[step], step) == resumed.seen(g[step], step)


def test_mean_noise():
    assert mean_noise(1) == 1
    assert mean_noise(10**6) == pytest.approx(0.1 / 1.9)
