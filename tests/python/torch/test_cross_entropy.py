"""cross_entropy in blocks of rows: the same losses, the same gradients, and less memory in backward."""
import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import comet_torch
from comet_torch.peak_memory import resident, restart_high_water

N, CLASSES = 500, 10007
pytestmark = pytest.mark.skipif(not hasattr(torch.autograd.graph, "node_creation_hook"), reason="this torch keeps its own cross_entropy")


def problem(dtype=torch.float32, ignored=False):
    torch.manual_seed(0)
    x, target = torch.randn(N, CLASSES).to(dtype), torch.randint(CLASSES, (N,))
    if ignored:
        target[::7] = -1
    return x, target


def run(x, target, context=None, scale=1.0, **options):
    """(loss, gradient of the logits, kind of the loss's node)"""
    leaf = x.clone().requires_grad_()
    logits = leaf * 1.0
    with context or comet_torch.compress(eb="lossless", overrides={"*:*": "raw"}):
        loss = F.cross_entropy(logits, target, **options)
        (loss * scale).sum().backward()
    return loss.detach(), leaf.grad, loss.grad_fn.name()


def plain(x, target, scale=1.0, **options):
    leaf = x.clone().requires_grad_()
    loss = F.cross_entropy(leaf * 1.0, target, **options)
    (loss * scale).sum().backward()
    return loss.detach(), leaf.grad


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": -1}, {"ignore_index": 0}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("lossless", ["raw", "lossless"])
def test_bit_for_bit(options, dtype, lossless):
    x, target = problem(dtype, ignored=options.get("ignore_index") == -1)
    context = comet_torch.compress(eb="lossless", overrides={"*:*": "raw"} if lossless == "raw" else None)
    loss, gradient, name = run(x, target, context, 0.37, **options)
    expected = plain(x, target, 0.37, **options)
    assert name == "CometCrossEntropyBackward"
    assert torch.equal(loss, expected[0]) and torch.equal(gradient, expected[1])


def test_adaptive_bounds():
    torch.manual_seed(0)
    layer = torch.nn.Linear(16, CLASSES)
    optimiser = torch.optim.SGD(layer.parameters(), 0.0)
    with comet_torch.compress(layer, optimiser) as mem:
        for _ in range(40):
            x, target = torch.randn(N, 16), torch.randint(CLASSES, (N,))
            optimiser.zero_grad()
            F.cross_entropy(layer(x), target).backward()
            optimiser.step()
    found = [p.grad.clone() for p in layer.parameters()]
    optimiser.zero_grad()
    F.cross_entropy(layer(x), target).backward()
    site = next(site for site in mem.figures.sites if "CometCrossEntropy" in site.key)
    assert site.figures.bound.form == "log_probability" and 0.05 < site.figures.eb <= 0.21
    weight, bias = (float((g - p.grad).norm() / p.grad.norm()) for g, p in zip(found, layer.parameters()))
    assert 0 < bias < 0.02 and weight < 0.15  # which has errors of its input, too


CASES = {
    "weights of classes": dict(weight=torch.ones(CLASSES)),
    "smoothing": dict(label_smoothing=0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_calls_left_to_pytorch(name):
    x, target = problem()
    loss, gradient, kind = run(x, target, **CASES[name])
    expected = plain(x, target, **CASES[name])
    assert kind != "CometCrossEntropyBackward"
    assert torch.equal(loss, expected[0]) and torch.equal(gradient, expected[1])


def test_vmap_is_left_to_pytorch():
    x, target = problem()
    logits, targets = torch.stack([x, -x]).requires_grad_(), torch.stack([target, target])
    with comet_torch.compress(eb="lossless"):
        losses = torch.vmap(F.cross_entropy)(logits, targets)
    assert torch.equal(losses, torch.vmap(F.cross_entropy)(logits, targets))


def test_small_logits_are_left_to_pytorch():
    x, target = problem()
    assert run(x[:20], target[:20])[2] != "CometCrossEntropyBackward"


def test_a_target_out_of_range_raises_as_pytorch_does():
    x, target = problem()
    target[3] = CLASSES
    with pytest.raises(IndexError, match="out of bounds"):
        run(x, target)


def test_a_target_that_was_changed():
    x, target = problem()
    leaf = x.requires_grad_()
    with comet_torch.compress(eb="lossless"):
        loss = F.cross_entropy(leaf * 1.0, target)
        target[0] = 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_logits_that_were_changed():
    x, target = problem()
    leaf = x.requires_grad_()
    with comet_torch.compress(eb="lossless"):
        logits = leaf * 1.0
        loss = F.cross_entropy(logits, target)
        logits.detach().mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_twice():
    x, target = problem()
    leaf = x.requires_grad_()
    with comet_torch.compress(eb=0.01):
        loss = F.cross_entropy(leaf * 1.0, target)
        first = torch.autograd.grad(loss, leaf, retain_graph=True)[0]
        assert torch.equal(first, torch.autograd.grad(loss, leaf)[0])


@pytest.mark.parametrize("adaptive", [True, False])
def test_the_gradient_of_a_gradient(adaptive):
    x, target = problem(torch.float64)
    direction = torch.randn(N, CLASSES, dtype=torch.float64)

    def second(context):
        leaf = x.clone().requires_grad_()
        with context:
            loss = F.cross_entropy(leaf * 1.0, target)
            gradient = torch.autograd.grad(loss, leaf, create_graph=True)[0]
            return torch.autograd.grad((gradient * direction).sum(), leaf)[0]

    layer = torch.nn.Linear(1, 1)
    context = comet_torch.compress(layer, torch.optim.SGD(layer.parameters(), 0.1)) if adaptive else comet_torch.compress(eb="lossless")
    expected = second(torch.autograd.graph.save_on_cpu())
    distance = float((second(context) - expected).norm() / expected.norm())
    assert distance < (0.1 if adaptive else 1e-12)


def test_within_a_checkpoint():
    """Whose own hooks count what is saved: both of its passes have to be PyTorch's."""
    x, target = problem()
    leaf = x.clone().requires_grad_()
    with comet_torch.compress(eb="lossless"):
        loss = checkpoint(lambda x: F.cross_entropy(x * 1.0, target), leaf, use_reentrant=False)
        loss.backward()
    assert torch.equal(leaf.grad, plain(x, target)[1])


def test_it_is_pytorchs_again_afterwards():
    before = F.cross_entropy
    with comet_torch.compress(eb=0.01):
        assert F.cross_entropy is not before
        with comet_torch.compress(eb=0.1):
            pass
    assert F.cross_entropy is before


def most_in_one_step(compressed):
    """The most resident memory of the third step, beyond what was resident before it, in units of the logits."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 50257)
    optimiser = torch.optim.SGD(layer.parameters(), 0.0)
    with comet_torch.compress(layer, optimiser) if compressed else contextlib.nullcontext():
        for _ in range(3):
            x, target, before = torch.randn(1024, 8), torch.randint(50257, (1024,)), resident("VmRSS")
            restart_high_water()
            F.cross_entropy(layer(x), target).backward()
            most = resident("VmHWM") - before
            optimiser.step()
    return most / (1024 * 50257 * 4)


def test_memory():
    plain, compressed = (comet_torch.peak(most_in_one_step, way).result for way in (False, True))
    print(plain, compressed)
    assert plain > 2.9 and compressed < 1.9
