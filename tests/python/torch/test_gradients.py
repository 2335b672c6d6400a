"""Training through the context: bit for bit without loss, and close to plain PyTorch with it."""
import copy

import pytest
import torch

import comet_torch
import nets


@pytest.mark.parametrize("name", sorted(nets.NETS))
def test_lossless_is_bit_for_bit(name):
    net, x = nets.make(name)
    twin = copy.deepcopy(net)
    loss, plain = nets.gradients(twin, x)
    with comet_torch.compress(net, eb="lossless") as mem:
        same, coded = nets.gradients(net, x)
    assert mem.figures.totals()["tensors"] > 5
    assert torch.equal(loss, same) and plain.keys() == coded.keys()
    for key in plain:
        assert torch.equal(plain[key], coded[key]), key


@pytest.mark.parametrize("name", sorted(nets.NETS))
def test_errors_shrink_with_the_bound(name):
    net, x = nets.make(name)
    twin = copy.deepcopy(net)
    loss, plain = nets.gradients(twin, x)
    distances = []
    for eb in ("0.1std", "0.01std", "0.001std"):
        fresh = copy.deepcopy(net)
        with comet_torch.compress(fresh, eb=eb) as mem:
            same, coded = nets.gradients(fresh, x)
        assert torch.equal(loss, same)  # forward is exact
        distances.append(nets.distance(plain, coded))
    assert 0 < distances[0] < 0.25
    assert distances[1] < 0.35 * distances[0] and distances[2] < 0.35 * distances[1]


def test_lossless_training():
    """Three steps with momentum, weights bit for bit."""
    weights = []
    for coded in (False, True):
        net, x = nets.make("vit")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        context = comet_torch.compress(net, optimizer, eb="lossless")
        if coded:
            context.__enter__()
        for step in range(3):
            optimizer.zero_grad()
            nets.gradients(net, x, step)
            optimizer.step()
        if coded:
            context.__exit__(None, None, None)
            assert context.figures.totals()["tensors"] > 50
        weights.append(list(net.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*weights))


@pytest.mark.parametrize("name", ["resnet50", "gpt"])
def test_adaptive_bounds_train(name):
    net, x = nets.make(name)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    losses = []
    with comet_torch.compress(net, optimizer) as mem:
        for step in range(12):
            losses.append(float(nets.gradients(net, x, step)[0]))
            optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    assert mem.figures.totals()["ratio"] > 3


def test_state_resumes_bit_for_bit():
    """A run that is interrupted and resumed has the weights of one that is not."""

    def train(net, optimizer, x, steps, state):
        with comet_torch.compress(net, optimizer) as mem:
            if state is not None:
                mem.load_state_dict(state)
            for step in steps:
                optimizer.zero_grad()
                nets.gradients(net, x, step)
                optimizer.step()
        return mem.state_dict()

    runs = []
    for parts in ([range(9)], [range(5), range(5, 9)]):
        net, x = nets.make("gpt")
        optimizer, state = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), None
        for part in parts:
            state = train(net, optimizer, x, part, state)
        runs.append([p.detach().clone() for p in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*runs))
