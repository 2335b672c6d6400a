"""Results of ReLU after batch norm, of which the signs are stored: which they are, that they are right, and when it is not done."""
import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import comet_torch
import nets
from comet_torch import notices
from comet_torch.rectified import Rectified
from comet_torch.roles import Role

NEW = hasattr(torch.autograd.graph, "node_creation_hook")


class Net(nn.Module):
    """Convolutions, and the ways to a ReLU between them: from one batch norm, from two, from one and an earlier result."""

    def __init__(self, n_added=1, inplace=True, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv0, self.bn0 = nn.Conv2d(3, 16, 3, padding=1, bias=False), norm(16)
        self.conv1, self.bn1 = nn.Conv2d(16, 16, 1, bias=False), norm(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 16, 1, bias=False), norm(16)
        self.more = nn.ModuleList(nn.ModuleList([nn.Conv2d(16, 16, 3, padding=1), norm(16)]) for _ in range(n_added))
        self.relu, self.head = nn.ReLU(inplace=inplace), nn.Conv2d(16, 10, 1)

    def forward(self, x):
        x = self.relu(self.bn0(self.conv0(x)))
        y = self.bn1(self.conv1(x))
        y += self.bn2(self.conv2(x))
        x = self.relu(y)
        for conv, bn in self.more:
            x = self.relu(x + bn(conv(x)))
        return self.head(x).mean((2, 3))


def batch(seed=0, channels=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, channels, 16, 16, generator=generator), torch.randint(10, (8,), generator=generator)


def training(net, memory, seeds):
    optimizer = memory.optimizer
    for seed in seeds:
        x, y = batch(seed)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()


def contexts(net, **options):
    return comet_torch.compress(net, torch.optim.SGD(net.parameters(), 0.05, 0.9), **options)


def n_derived(memory):
    return sum(Role.RELU in site.roles and site.figures.derived > 0 for site in memory.figures.sites)


def gradients(net, x, y):
    net.zero_grad()
    F.cross_entropy(net(x), y).backward()
    return {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def compared(net, x, y, autocast=False):
    """(context, relative distance of gradients) of one forward and backward pass, the first of a run."""
    plain = copy.deepcopy(net)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        expected = gradients(plain, x, y)
        with contexts(net) as memory:
            found = gradients(net, x, y)
    return memory, nets.distance(expected, found)


class Affineless(nn.BatchNorm2d):
    def __init__(self, channels):
        super().__init__(channels, affine=False)


CASES = {
    "in place": lambda: Net(),
    "new tensors": lambda: Net(inplace=False),
    "channels last": lambda: Net().to(memory_format=torch.channels_last),
    "without weights": lambda: Net(norm=Affineless),
    "evaluating": lambda: Net().eval(),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_computed_again(name):
    torch.manual_seed(0)
    net = CASES[name]()
    for module in net.modules():  # weights and shifts of all sizes and signs
        if isinstance(module, nn.BatchNorm2d) and module.affine:
            nn.init.normal_(module.weight), nn.init.normal_(module.bias)
    x, y = batch()
    memory, distance = compared(net, x.contiguous(memory_format=torch.channels_last) if name == "channels last" else x, y)
    assert n_derived(memory) == 3
    assert 0 < distance < 0.05
    assert memory.session.memory().n_blocks == 0


def test_rows_of_features():
    """Batch norm of matrices; a linear layer reads the result."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 10))
    memory, distance = compared(net, torch.randn(256, 64), torch.randint(10, (256,)))
    assert n_derived(memory) == 1 and 0 < distance < 0.05


def test_half_precision():
    torch.manual_seed(0)
    memory, distance = compared(Net(), *batch(), autocast=True)
    assert n_derived(memory) == 3 and 0 < distance < 0.1


@pytest.mark.parametrize("inplace", [True, False])
def test_signs_and_zeros_are_exact(inplace):
    """What ReLU's own gradient reads, and what the convolution reads."""
    torch.manual_seed(0)
    net, found = Net(inplace=inplace), []
    with contexts(net) as memory:
        memory.hooks.observer = lambda node, kind, saved: found.extend(
            (one.tensor.detach().clone(), one.ticket) for one in saved if isinstance(one.ticket.content, Rectified))
        loss = net(batch()[0]).sum()
        assert {ticket.role for _, ticket in found} == {Role.RELU, Role.CONV_INPUT}
        for exact, ticket in found:
            stored = memory.hooks.unpack(ticket)
            assert torch.equal(stored > 0, exact > 0) and torch.equal(stored == 0, exact == 0)
            if ticket.role is Role.CONV_INPUT:
                assert (stored - exact).abs().max() <= ticket.content.largest * 1.001
        loss.backward()


def test_at_most_two_results_deep():
    """Of four results that add to each other the third is stored, and the fourth begins anew from it."""
    torch.manual_seed(0)
    net = Net(n_added=4)
    memory, _ = compared(net, *batch())
    depths = {site.key: site.figures.derived > 0 for site in memory.figures.sites if Role.RELU in site.roles}
    assert list(depths.values()) == [True, True, True, False, True, True]


def test_values_that_are_not_finite():
    torch.manual_seed(0)
    net = Net()
    with contexts(net) as memory:
        training(net, memory, [0])
        x, y = batch(1)
        x[0, 0, 0, 0] = math.nan
        assert not torch.isfinite(gradients(net, x, y)["conv0.weight"]).all()


def changed_between(net, x):
    y = net.bn0(net.conv0(x))
    with torch.no_grad():
        y.mul_(1.1)
    return net.head(F.relu(y)).mean((2, 3))


def frozen_shift(net, x):
    net.bn0.bias.requires_grad_(False)
    return net.head(F.relu(net.bn0(net.conv0(x)))).mean((2, 3))


def subtracted(net, x):
    y = F.relu(net.bn0(net.conv0(x)))
    return net.head(F.relu(torch.sub(net.bn1(net.conv1(y)), y))).mean((2, 3))


@pytest.mark.parametrize("forward, n", [(changed_between, 0), (frozen_shift, 0), (subtracted, 1)])
def test_what_is_stored(forward, n):
    torch.manual_seed(0)
    net = Net()
    net.forward = lambda x: forward(net, x)
    x, y = batch()
    expected = gradients(net, x, y)
    with contexts(net) as memory:
        found = gradients(net, x, y)
    assert n_derived(memory) == n
    assert nets.distance(expected, found) < 0.05


@pytest.mark.parametrize("options", [dict(eb="0.05std"), dict(eb="lossless"), dict(overrides={"relu": dict(eb="0.01std")}),
                                     dict(overrides={"bn*": "lossless", "more.*": "lossless"}), dict(overrides={"bn*": "raw", "more.*": "raw"})])
def test_what_users_ask_for_holds(options):
    net = Net()
    with contexts(net, **options) as memory:
        gradients(net, *batch())
    assert n_derived(memory) == 0


def test_a_use_that_needs_every_bit():
    """An operator that no table names reads the result too."""
    net = Net()
    net.forward = lambda x: net.head((y := F.relu(net.bn0(net.conv0(x))))).mean((2, 3)) + y.cosh().mean()
    x, y = batch()
    expected = gradients(net, x, y)
    with contexts(net) as memory:
        for _ in range(2):
            found = gradients(net, x, y)
    assert n_derived(memory) == 1  # in the first step, before the other use was known
    assert nets.distance(expected, found) < 0.05


def test_a_change_in_place_is_noticed():
    net = Net(n_added=0)
    with contexts(net):
        y = F.relu(net.bn0(net.conv0(batch()[0])))
        loss = net.head(y).sum()
        y.detach().mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("inplace", [True, False])
def test_values_that_differ_in_a_later_step(inplace):
    """Nothing but a comparison tells of a change through .data."""
    notices.forget()
    torch.manual_seed(0)
    net, (x, y) = Net(inplace=inplace), batch()
    handle, optimizer = None, torch.optim.SGD(net.parameters(), 0.0)
    with comet_torch.compress(net, optimizer) as memory, pytest.warns(UserWarning, match="does not follow from stored tensors"):
        for step in range(80):
            if step == 5:
                bn = next(m for m in net.modules() if isinstance(m, nn.BatchNorm2d))
                handle = bn.register_forward_hook(lambda module, inputs, output: (output.data.add_(1.0), None)[1])
            found = gradients(net, x, y)
            optimizer.step()
    expected = gradients(net, x, y)
    handle.remove()
    assert nets.distance(expected, found) < 0.05


def test_errors_are_what_they_may_be():
    """The errors of gradients from values computed again, measured, are those predicted, and bounds hold them within what they may be."""
    torch.manual_seed(0)
    net = Net()
    with contexts(net) as memory:
        training(net, memory, range(24))
    states = {key: states["weight"] for site in memory.hooks.sites.all for key, states in
              memory.assessor.report(site).get("uses", {}).items() if "weight" in states}
    ratios = {key: s.sigma_measured / s.sigma_predicted for key, s in states.items()
              if "Convolution.input" in key and math.isfinite(s.sigma_measured) and s.sigma_predicted > 0}
    print(ratios)
    assert any(key.startswith("more.0.0") for key in ratios) and any(key.startswith("conv2") for key in ratios)
    assert all(0.5 < ratio < 2 for ratio in ratios.values())


@pytest.mark.parametrize("n", [5])
def test_stop_and_resume_gives_the_same_weights(n):
    torch.manual_seed(0)
    net = Net()
    with contexts(net) as memory:
        training(net, memory, range(n))
        saved = copy.deepcopy((net.state_dict(), memory.optimizer.state_dict(), memory.state_dict()))
        training(net, memory, range(n, n + 4))
    again = Net()
    again.load_state_dict(saved[0])
    with contexts(again) as memory:
        memory.optimizer.load_state_dict(saved[1])
        memory.load_state_dict(saved[2])
        training(again, memory, range(n, n + 4))
    assert n_derived(memory) == 3
    for a, b in zip(net.state_dict().values(), again.state_dict().values()):
        assert torch.equal(a, b)
