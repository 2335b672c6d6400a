"""Contents are shared where values are the same, and only there."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import comet_torch


def gradients(make_loss, parameters, **options):
    """Gradients of the parameters, plain and with compress(**options)."""
    found = []
    for compressed in (False, True):
        for p in parameters:
            p.grad = None
        if compressed:
            with comet_torch.compress(**options):
                make_loss().backward()
        else:
            make_loss().backward()
        found.append([p.grad.clone() for p in parameters])
    return found


def check_exact(make_loss, parameters, **options):
    plain, coded = gradients(make_loss, parameters, **(options or {"eb": "lossless"}))
    for a, b in zip(plain, coded):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_pieces_of_a_storage_that_are_changed_one_by_one(kind):
    torch.manual_seed(0)
    cell = getattr(nn, kind)(64, 256)
    x = torch.randn(64, 64)

    def loss():
        state = cell(x)
        return (state[0] if isinstance(state, tuple) else state).square().sum()

    check_exact(loss, list(cell.parameters()))


def test_recurrent_nets():
    torch.manual_seed(0)
    for net in (nn.GRU(64, 128), nn.LSTM(64, 128), nn.LSTM(64, 128, proj_size=32)):
        x = torch.randn(8, 32, 64)
        check_exact(lambda: net(x)[0].square().sum(), list(net.parameters()))


def test_unsafe_chunk():
    w = torch.randn(64, 512, requires_grad=True)

    def loss():
        first, second = torch.unsafe_chunk(torch.randn(64, 64, generator=torch.Generator().manual_seed(1)) @ w, 2, 1)
        return (first.sigmoid_() * second.tanh_()).sum()

    check_exact(loss, [w])


def test_a_log_softmax_that_another_node_reads():
    torch.manual_seed(0)
    w = (10 * torch.randn(64, 128)).requires_grad_()
    q = torch.randn(64, 128, requires_grad=True)
    net = nn.Linear(1, 1)
    optimizer = torch.optim.SGD([w, q], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        with comet_torch.compress(net, optimizer):
            y = F.log_softmax(w * 1, -1)
            (y * torch.tanh(q)).sum().backward()
        assert torch.isfinite(q.grad).all() and torch.isfinite(w.grad).all()


def test_memory_that_is_filled_anew():
    torch.manual_seed(0)
    layer, buffer, kept = nn.Linear(64, 64), torch.randn(64, 64), []
    first, second = torch.randn(64, 64), torch.randn(64, 64)

    def loss():
        buffer.data.copy_(first)
        kept.append(layer(buffer))
        buffer.data.copy_(second)
        return layer(buffer).square().sum()

    check_exact(loss, list(layer.parameters()), model=layer, eb="lossless")


def test_conjugates_pass_through():
    w = torch.randn(64, 64, dtype=torch.complex64).requires_grad_()
    z = torch.randn(64, 64, dtype=torch.complex64)
    check_exact(lambda: (z.conj() * w).abs().sum(), [w])
    layer = nn.Linear(64, 64)
    check_exact(lambda: layer(z.conj().imag).square().sum(), [layer.weight])


class GivesBackWhatItSaved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(g)
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0], None


def test_a_decoded_tensor_that_became_a_gradient():
    p, g = torch.zeros(64, 64, requires_grad=True), torch.randn(64, 64).roll(1, 0)
    with comet_torch.compress(eb="lossless"):
        loss = GivesBackWhatItSaved.apply(p, g) + GivesBackWhatItSaved.apply(p, g)
        loss.backward(retain_graph=True)
        p.grad.zero_()
        loss.backward()
    assert torch.equal(p.grad, 2 * g)


def conv_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)), torch.randn(4, 3, 24, 24)


def test_the_override_of_a_second_use_holds():
    net, x = conv_net()
    plain, coded = gradients(lambda: net(x).sum(), [net[2].weight], model=net, eb="0.1std", overrides={"2": "lossless"})
    assert torch.equal(plain[0], coded[0])


def test_an_override_ends_computing_again():
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)), torch.randn(64, 64)
    plain, coded = gradients(lambda: net(x).sum(), [net[2].weight], model=net, eb="0.1std", overrides={"2": dict(eb=1e-6)})
    assert float((plain[0] - coded[0]).abs().max()) <= 1e-3 * float(plain[0].abs().max())


def test_a_pattern_of_a_module_is_one_of_all_within():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = nn.Sequential(nn.Linear(64, 64))

        def forward(self, x):
            return self.attn(x)

    net, x = nn.Sequential(Block()), torch.randn(64, 64).roll(1, 0)
    plain, coded = gradients(lambda: net(x).sum(), list(net.parameters()), model=net, eb="0.1std", overrides={"*.attn": "lossless"})
    assert torch.equal(plain[0], coded[0])


def test_the_bound_of_a_view_is_its_own():
    torch.manual_seed(0)
    layer = nn.Linear(128, 64)
    big = torch.cat([1000 * torch.randn(64, 128), torch.randn(64, 128)], 1)
    plain, coded = gradients(lambda: layer(big[:, 128:]).sum(), [layer.weight], eb="0.1std")
    assert float((plain[0] - coded[0]).norm()) <= 0.15 * float(plain[0].norm())


def test_small_views_with_gaps():
    layer = nn.Linear(100, 64)
    check_exact(lambda: layer(torch.ones(64, 1000)[:, :100]).square().sum(), [layer.weight])


def test_limits_and_exponents_that_are_tensors():
    w = torch.rand(64, 64, requires_grad=True)
    low, power = torch.full((64, 64), 0.5), torch.full((64, 64), 1.5)
    check_exact(lambda: (w * 1).clamp(min=low).square().sum(), [w])
    check_exact(lambda: ((w * 1 + 0.1) ** power).sum(), [w])
    z = torch.randn(64, 64, dtype=torch.complex128).requires_grad_()
    check_exact(lambda: (z * z.roll(1, 0)).abs().sum(), [z])


def test_an_exception_half_way_leaves_the_names_in_order():
    class Fails(nn.Module):
        def forward(self, x):
            if self.training:
                raise ValueError("half way")
            return x

    net = nn.Sequential(nn.Linear(64, 64), Fails())
    with comet_torch.compress(net, eb="0.1std") as mem:
        with pytest.raises(ValueError, match="half way"):
            net(torch.randn(64, 64))
        net.eval()
        net(torch.randn(64, 64).roll(1, 0)).sum().backward()
        assert mem.hooks.sites.stack == [""]


def test_infinities_in_what_is_exact_do_not_end_adapting():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    mask = torch.randn(64, 64).masked_fill(torch.rand(64, 64) < 0.1, -float("inf"))
    with comet_torch.compress(net, optimizer) as mem:
        for _ in range(4):
            optimizer.zero_grad()
            y = net(torch.randn(64, 64).roll(1, 0))
            (y.square().sum() + torch.logaddexp(y, mask).sum()).backward()
            optimizer.step()
    assert mem.assessor.n_withdrawals == 0
