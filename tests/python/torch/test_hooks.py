"""What saved-tensor hooks have to keep to: identity, versions, lifetimes, views, types."""
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import comet_torch
import nets

EB = "0.01std"


def tickets(mem):
    """Collects what pack returns within the context."""
    found, pack = [], mem.hooks.pack

    def noted(tensor):
        ticket = pack(tensor)
        found.append(weakref.ref(ticket))
        return ticket

    mem.hooks.pack = noted
    return found


def context(**options):
    return comet_torch.compress(**dict({"eb": EB}, **options))


def activation(*shape):
    """Values with a gradient that no weights make: what a leaf alone makes counts as a weight."""
    return torch.randn(*shape).requires_grad_().roll(1, 0)


def used_blocks(mem):
    return mem.session.memory().n_blocks


# ---- what is never packed ----


def test_parameters_and_buffers_are_left_alone():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 64)
            self.table = nn.Parameter(torch.randn(64, 64))
            self.register_buffer("constant", torch.randn(64, 64))

        def forward(self, x):
            return (self.linear(x) * self.constant) @ self.table.t()

    net, x = Net(), activation(64, 64)
    kept = {t.data_ptr() for t in list(net.parameters()) + list(net.buffers())}
    seen = []
    with context(model=net) as mem:
        mem.hooks.observer = lambda node, kind, fields: seen.extend((s.ticket, s.tensor.data_ptr()) for s in fields)
        net(x).sum().backward()
    of_net = [ticket for ticket, address in seen if address in kept]
    assert len(of_net) == 3 and all(ticket.raw is not None for ticket in of_net)  # a linear layer's, the constant, the table
    coded = [ticket for ticket, address in seen if address not in kept]
    assert len(coded) == 2 and all(ticket.raw is None for ticket in coded)


def test_parameters_without_a_model():
    weight = nn.Parameter(torch.randn(64, 64))
    frozen = nn.Parameter(torch.randn(64, 64), requires_grad=False)
    x = activation(64, 64)
    seen = []
    with context() as mem:
        mem.hooks.observer = lambda node, kind, fields: seen.extend((s.role.value, s.ticket.raw is None) for s in fields)
        ((x @ weight.t()) @ frozen).sum().backward()
    assert sorted(seen) == [("linear input", True), ("weight", False), ("weight", False)]


# ---- identity and versions ----


def test_one_storage_is_coded_once():
    x = activation(64, 256)
    with context() as mem:
        y = torch.relu(x)
        loss = F.linear(y, torch.randn(8, 256, requires_grad=True)).sum() + (y * y).sum()
        assert used_blocks(mem) == 1
        loss.backward()
        assert used_blocks(mem) == 0


def test_views_share_the_storage():
    x = activation(64, 3 * 64)
    with context() as mem:
        q, k, v = x.view(64, 3, 64).unbind(1)
        loss = (q * k).sum() + (k * v).sum()
        assert used_blocks(mem) == 1
        loss.backward()


def test_addresses_recur():
    """Tensors that die in forward give their addresses to others."""
    weights = [nn.Parameter(torch.randn(256, 256) / 16) for _ in range(30)]

    def forward(x):
        for w in weights:
            x = torch.tanh(x @ w) * 1.5
        return x.square().sum()

    x = torch.randn(64, 256)
    forward(x).backward()
    plain = [w.grad.clone() for w in weights]
    for w in weights:
        w.grad = None
    with context(eb="lossless"):
        forward(x).backward()
    assert all(torch.equal(w.grad, p) for w, p in zip(weights, plain))


@pytest.mark.parametrize("role", ["coded", "passed", "weight"])
def test_a_change_in_place_is_noticed(role):
    x = activation(64, 64 if role != "passed" else 1)
    w = nn.Parameter(torch.randn(x.shape[1], 64))
    with context():
        y = x @ w
        with torch.no_grad():
            (w if role == "weight" else x).add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_a_view_changed_in_place_is_noticed():
    x = activation(64, 64)
    w = nn.Parameter(torch.randn(64, 64))
    with context():
        y = x @ w
        x.detach()[3:5].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_a_tensor_changed_before_it_is_saved_again():
    """Two versions of one storage are two contents."""
    x, w = torch.randn(64, 64), nn.Parameter(torch.randn(64, 64))
    buffer = x.clone()
    results = []
    for coded in (False, True):
        buffer.copy_(x)
        w.grad = None
        opened = context(eb="lossless") if coded else torch.enable_grad()
        with opened:
            first = buffer * 1.0
            y = (first @ w).sum()
            buffer.mul_(2.0)
            y = y + (buffer @ w).sum()
            y.backward()
        results.append(w.grad.clone())
    assert torch.equal(*results)


# ---- lifetimes ----


def test_raw_tensors_are_released_at_once():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
    outputs = []
    for module in net:
        module.register_forward_hook(lambda module, inputs, output: outputs.append(weakref.ref(output)))
    with context(model=net):
        loss = net(torch.randn(4, 3, 32, 32)).sum()
        assert [output() is None for output in outputs] == [True, True, True, True, True]
        loss.backward()


def test_storages_are_released_at_once():
    from torch.multiprocessing.reductions import StorageWeakRef

    from comet_torch.handles import storage_of

    storages = []
    with context() as mem:
        mem.hooks.observer = lambda node, kind, fields: storages.extend(StorageWeakRef(storage_of(s.tensor)) for s in fields)
        x = activation(64, 64)
        w = nn.Parameter(torch.randn(64, 64))
        y = torch.tanh(x @ w)
        y = torch.sigmoid(y @ w) @ w
        del x
        expired = [storage.expired() for storage in storages]
        y.sum().backward()
    assert expired.count(True) == 5 and expired.count(False) == 3  # x, tanh and sigmoid, two of them twice; the weight three times


def test_contents_die_with_the_graph():
    with context() as mem:
        y = torch.tanh(activation(64, 64))
        assert used_blocks(mem) > 0
        del y
        assert used_blocks(mem) == 0
        assert not mem.hooks.registry.entries


def test_no_cycles():
    """Reference counts alone free everything: the garbage collector has nothing to do."""
    net, x = nets.make("vit")
    gc.collect()
    gc.disable()
    try:
        with context(model=net) as mem:
            found = tickets(mem)
            with torch.autograd.graph.saved_tensors_hooks(mem.hooks.pack, mem.hooks.unpack):
                loss = nets.loss_of(net, x)
            assert found
            del loss
            assert [ref() for ref in found if ref() is not None] == []
            assert used_blocks(mem) == 0
    finally:
        gc.enable()


def test_blocks_are_freed_in_any_order():
    tensors = []
    with context() as mem:
        for n in (64, 128, 32, 256, 96):
            tensors.append(torch.tanh(activation(n, 64)))
        for index in (2, 0, 3, 1, 4):
            tensors[index].sum().backward()
            tensors[index] = None
        assert used_blocks(mem) == 0


def test_the_graph_outlives_the_context():
    x = activation(64, 64)
    (plain,) = torch.autograd.grad(torch.tanh(x).sum(), x)
    with context(eb="lossless") as mem:
        y = torch.tanh(x)
    assert used_blocks(mem) == 1
    session = weakref.ref(mem.session)
    del mem
    gc.collect()
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], plain)
    del y
    gc.collect()
    assert session() is None


# ---- unpacking twice, or never ----


def test_retain_graph():
    x = torch.randn(64, 64, requires_grad=True)
    with context(eb="lossless"):
        y = torch.tanh(x).sum()
        y.backward(retain_graph=True)
        first = x.grad.clone()
        x.grad = None
        y.backward()
    assert torch.equal(first, x.grad)


def test_double_backward():
    results = []
    for coded in (False, True):
        torch.manual_seed(0)
        x = torch.randn(64, 64, requires_grad=True)
        w = torch.randn(64, 64, requires_grad=True)
        with context(eb="lossless") if coded else torch.enable_grad():
            y = torch.tanh(x @ w).pow(2).sum()
            (gradient,) = torch.autograd.grad(y, x, create_graph=True)
            gradient.square().sum().backward()
        results.append((x.grad, w.grad))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


def test_packs_within_backward_pass_through():
    x = torch.randn(64, 64, requires_grad=True)
    with context() as mem:
        found = tickets(mem)
        with torch.autograd.graph.saved_tensors_hooks(mem.hooks.pack, mem.hooks.unpack):
            y = torch.tanh(x).sum()
            n = len(found)
            (gradient,) = torch.autograd.grad(y, x, create_graph=True)
            assert len(found) > n and all(ref().raw is not None for ref in found[n:] if ref() is not None)
            gradient.sum().backward()


def test_close_uses_decode_once():
    """A ReLU's result that is also the input of a linear layer: two nodes, one decoding."""
    w = nn.Parameter(torch.randn(64, 64))
    with context() as mem:
        (torch.relu(torch.randn(64, 64) @ w) @ w).sum().backward()
    of_relu = [site for site in mem.figures.sites if "Relu" in site.key]
    assert [site.figures.n_decoded for site in of_relu] == [1]


# ---- what comes back ----

SHAPES = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 1),
    "channels last": lambda t: t.reshape(8, 16, 8, 16).contiguous(memory_format=torch.channels_last),
    "strided": lambda t: t[:, ::2],
    "part": lambda t: t[3:60, 5:100],
    "small part": lambda t: t[:, :40],
    "expanded": lambda t: t[:, :1].expand(-1, 300),
    "permuted": lambda t: t.reshape(8, 16, 8, 16).permute(2, 0, 3, 1),
    "flat": lambda t: t.reshape(-1)[7:],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("eb", ["lossless", "0.01std"])
def test_tensors_come_back_as_they_were(dtype, shape, eb):
    base = torch.randn(128, 128).to(dtype)
    with context(eb=eb) as mem:
        tensor = SHAPES[shape](base.requires_grad_().roll(0, 0))
        y = tensor * tensor
        node = y.grad_fn
        back = node._saved_self
    assert (back.dtype, back.shape, back.stride(), back.device) == (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
    if eb == "lossless":
        assert torch.equal(back.detach(), tensor.detach())
    else:
        deviation = base.detach().double().std()
        largest = (back.detach().double() - tensor.detach().double()).abs().max()
        assert largest <= 0.011 * deviation + 2 * torch.finfo(dtype).eps * 4
    assert sum(mem.figures.bytes_passed.values()) == 0


def test_masks_and_integers_are_exact_and_small():
    x = activation(64, 64, 16, 16)
    with context() as mem:
        dropped = F.dropout(x, 0.3)
        pooled = F.max_pool2d(x, 2)
        picked = torch.where(x > 0, dropped, x)
        (picked.sum() + pooled.sum()).backward()
    ratios = {site.key.split(":")[1].split("#")[0]: site.figures.raw / site.figures.coded for site in mem.figures.sites}
    assert ratios["Mul.other"] > 25  # two values of four bytes
    assert ratios["Where.condition"] > 6  # two values of one byte
    assert ratios["MaxPool2DWithIndices.result1"] > 6  # of eight bytes


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("pool", [dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=2), dict(kernel_size=(2, 3), stride=(1, 2)),
                                  dict(kernel_size=3, dilation=2), dict(kernel_size=3, stride=2, ceil_mode=True),
                                  dict(kernel_size=17, stride=1)])
def test_indices_of_a_max_pool_take_few_bits(pool, channels_last):
    """Gradients are those of plain PyTorch bit for bit, also where the largest value stands at the edge or is a NaN."""
    x = torch.randn(4, 32, 30, 26)
    x[0, 0, 0, 0], x[0, 1, 5, 5], x[1, 2] = float("inf"), float("nan"), 0.0
    x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
    gradients = []
    for packed in (False, True):
        leaf = x.clone().requires_grad_()
        if packed:
            with context() as mem:
                y = F.max_pool2d(leaf, **pool)
                y.backward(torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape))
        else:
            y = F.max_pool2d(leaf, **pool)
            y.backward(torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape))
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)
    (site,) = [s for s in mem.figures.sites if "result1" in s.key]
    few = pool["kernel_size"] != 17  # 289 places are too many for a byte: offsets are packed
    assert site.figures.raw / site.figures.coded > (14 if few else 5)


def test_indices_of_a_pool_without_a_batch():
    x = torch.randn(64, 40, 40, requires_grad=True)
    with context() as mem:
        F.max_pool2d(x, 2).sum().backward()
    assert float(x.grad.sum()) == 64 * 20 * 20
    assert used_blocks(mem) == 0


INTERVALS = [lambda x: F.hardtanh(x), lambda x: F.relu6(x * 3), lambda x: F.hardsigmoid(x * 3), lambda x: x.clamp(-0.5, 1.5),
             lambda x: x.clamp(min=0.25), lambda x: x.clamp(max=0.0), lambda x: F.threshold(x, 0.1, 20.0)]


@pytest.mark.parametrize("index", range(len(INTERVALS)))
def test_intervals_take_a_bit(index):
    function, base = INTERVALS[index], torch.randn(64, 256)
    base[0, :8] = torch.tensor([-3.0, 3.0, -0.5, 1.5, 0.0, 0.1, float("inf"), -float("inf")])
    base[1, :3] = torch.tensor([0.25, 6.0, float("nan")])
    gradients = []
    for coded in (False, True):
        x = base.clone().requires_grad_()
        with context() if coded else torch.enable_grad() as mem:
            (function(x.roll(0, 0)) * torch.arange(1.0, 257.0)).sum().backward()
        gradients.append(torch.nan_to_num(x.grad, 12345.0))
    assert torch.equal(*gradients)
    assert mem.figures.sites[0].figures.raw > 25 * mem.figures.sites[0].figures.coded


def test_a_later_use_that_needs_every_bit():
    """The second use is of unknown role: it reads the exact values, and from the next step on both do. They pass through, as coding
    them without loss saves nothing."""
    x = torch.randn(64, 64)
    w = nn.Parameter(torch.randn(64, 64))
    with context() as mem:
        for step in range(2):
            y = x @ w
            z = torch.tanh(y)
            loss = z.cosh().sum() + (z @ w).sum()
            node = loss.grad_fn.next_functions[0][0].next_functions[0][0]
            assert node.name().startswith("Cosh") and torch.equal(node._saved_self.detach(), z.detach())
            loss.backward()
    (site,) = [site for site in mem.figures.sites if "Tanh" in site.key]
    assert site.exact and site.incompressible and site.figures.n == 1


def test_custom_functions_get_their_tensors_exactly():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * gradient

    x = torch.randn(64, 64, requires_grad=True)
    with context():
        Cube.apply(torch.relu(x)).sum().backward()
    assert torch.equal(x.grad, 3 * torch.relu(x.detach()) ** 2 * (x > 0))


def test_an_exception_leaves_nothing_behind():
    net, x = nets.make("gpt")
    hooks = len(net._forward_hooks), len(net._forward_pre_hooks)
    mem = context(model=net)
    with pytest.raises(KeyError), mem:
        loss = nets.loss_of(net, x)
        raise KeyError("stop")
    assert (len(net._forward_hooks), len(net._forward_pre_hooks)) == hooks
    del loss
    gc.collect()
    assert used_blocks(mem) == 0 and not mem.hooks.pending
    y = torch.tanh(torch.randn(64, 64, requires_grad=True))
    assert used_blocks(mem) == 0
    assert type(getattr(y.grad_fn, "_saved_result")) is torch.Tensor


def test_a_forward_that_fails_does_not_move_names():
    net, x = nets.make("gpt")
    with context(model=net) as mem:
        def fail(module, inputs):
            raise ValueError("stop")

        handle = net.blocks[1].register_forward_pre_hook(fail)
        with pytest.raises(ValueError):
            net(x)
        handle.remove()
        nets.loss_of(net, x).backward()
    assert {site.module for site in mem.figures.sites} <= {name for name, _ in net.named_modules()}
