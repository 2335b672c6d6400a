"""Predicted harm of errors against simulation with real autograd nodes; ratios are simulated / predicted (docs/theory.md)."""
import pytest
import torch
import torch.nn.functional as F

from comet_torch.forms import LogOddsForm, LogProbabilityForm, RowForm
from comet_torch.gains import channel_energies, energy
from comet_torch.roles import Role
from simulation import Simulation, gradient_like

torch.set_num_threads(2)
HAS_ATTENTION = hasattr(F, "scaled_dot_product_attention")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed))


def leaf(tensor):
    return tensor.detach().clone().requires_grad_()


def computed(x):
    """An activation, not a leaf, which would pass for a weight."""
    return x.asinh()


def check(ratio, low, high, what=""):
    print(f"{what} simulated / predicted {ratio:.3f}")
    assert low < ratio < high


CONVOLUTIONS = {
    "1x1": ((4, 64, 28, 28), (128, 64, 1, 1), dict()),
    "3x3": ((4, 32, 28, 28), (48, 32, 3, 3), dict(padding=1)),
    "3x3, 4 px": ((16, 32, 4, 4), (48, 32, 3, 3), dict(padding=1)),
    "stride 2": ((4, 32, 28, 28), (48, 32, 3, 3), dict(padding=1, stride=2)),
    "dilation": ((4, 16, 20, 20), (24, 16, 3, 3), dict(padding=2, dilation=2)),
    "groups": ((4, 32, 14, 14), (48, 8, 3, 3), dict(padding=1, groups=4)),
    "depthwise": ((4, 32, 28, 28), (32, 1, 7, 7), dict(padding=3, groups=32)),
    "1-d": ((4, 32, 100), (48, 32, 5), dict(padding=2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name):
    shape, weight_shape, options = CONVOLUTIONS[name]
    x, w = leaf(torch.relu(randn(*shape))), leaf(randn(*weight_shape, seed=1))
    run = F.conv1d if len(shape) == 3 else F.conv2d
    dy = gradient_like(run(x, w, **options).shape, generator(2))
    s = Simulation(lambda: run(x, w, **options), "input", [w, x], dy)
    assert s.field.role is Role.CONV_INPUT
    seen = s.observed()["weight"]
    (harm, _), (elsewhere, _) = s.simulated()
    check(harm / (seen.gain * s.eb**2), 0.93, 1.07, name)
    assert elsewhere == 0 and seen.gradient.shape == w.shape


@pytest.mark.parametrize("groups", [1, 4])
def test_transposed_convolution(groups):
    x, w = leaf(randn(4, 32, 14, 14)), leaf(randn(32, 24 // groups, 3, 3, seed=1))
    options = dict(stride=2, padding=1, output_padding=1, groups=groups)
    dy = gradient_like(F.conv_transpose2d(x, w, **options).shape, generator(2))
    s = Simulation(lambda: F.conv_transpose2d(x, w, **options), "input", [w], dy)
    check(s.simulated()[0][0] / (s.observed()["weight"].gain * s.eb**2), 0.93, 1.07)


def test_linear():
    x, w, b = leaf(randn(512, 192)), leaf(randn(96, 192, seed=1)), leaf(randn(96))
    s = Simulation(lambda: F.linear(computed(x), w, b), "mat1", [w], gradient_like((512, 96), generator(2)))
    assert s.field.role is Role.LINEAR_INPUT
    seen = s.observed()["weight"]
    assert seen.gradient.numel() == w.numel()
    check(s.simulated()[0][0] / (seen.gain * s.eb**2), 0.93, 1.07)


def test_linear_with_the_weight_first():
    x, w = leaf(randn(192, 512)), leaf(randn(96, 192, seed=1))
    s = Simulation(lambda: torch.mm(w, computed(x)), "mat2", [w], gradient_like((96, 512), generator(2)))
    assert s.field.role is Role.LINEAR_INPUT
    check(s.simulated()[0][0] / (s.observed()["weight"].gain * s.eb**2), 0.93, 1.07)


@pytest.mark.parametrize("field", ["self", "mat2"])
def test_product_of_activations(field):
    a, b = leaf(randn(6, 100, 32)), leaf(randn(6, 32, 80, seed=1))
    s = Simulation(lambda: torch.bmm(computed(a), computed(b)), field, [a, b], gradient_like((6, 100, 80), generator(2)))
    harm, energy = s.simulated()[1 if field == "self" else 0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.93, 1.07)


@pytest.mark.parametrize("other", [(8, 32, 20, 20), (8, 32, 1, 1)])
def test_elementwise_product(other):
    a, b = leaf(torch.relu(randn(8, 32, 20, 20))), leaf(randn(*other, seed=1))
    s = Simulation(lambda: computed(a) * computed(b), "self", [b], gradient_like((8, 32, 20, 20), generator(2)))
    harm, energy = s.simulated()[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.9, 1.1)


def test_scale_of_a_layer():
    x, gamma = leaf(randn(4, 49, 96)), leaf(randn(96, seed=1))
    s = Simulation(lambda: gamma * computed(x), "other", [gamma], gradient_like((4, 49, 96), generator(2), 2))
    seen = s.observed()
    assert set(seen) == {"weight"}
    check(s.simulated(30)[0][0] / (seen["weight"].gain * s.eb**2), 0.9, 1.1)


# ---- norms ----


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(affine):
    x = leaf(randn(16, 24, 14, 14) * 2 + 0.5)
    gamma, beta = (leaf(randn(24, seed=1).abs() + 0.1), leaf(randn(24, seed=3))) if affine else (None, None)
    dy = gradient_like(x.shape, generator(2)) + 0.3 * F.batch_norm(x, None, None, training=True).detach() + 0.1
    leaves = [x, gamma] if affine else [x]
    s = Simulation(lambda: F.batch_norm(x, None, None, gamma, beta, training=True), "input", leaves, dy, eb=0.1)
    seen, found = s.observed(), s.simulated(40)
    check(found[0][0] / found[0][1] / (seen["passed"].gain * s.eb**2), 0.9, 1.1, "passed")
    assert ("scale" in seen) == affine
    if affine:
        check(found[1][0] / (seen["scale"].gain * s.eb**2), 0.85, 1.15, "scale")


def test_batch_norm_of_an_evaluated_model():
    x, gamma, beta = leaf(randn(16, 24, 14, 14)), leaf(randn(24, seed=1)), leaf(randn(24, seed=3))
    mean, variance = torch.zeros(24), torch.full((24,), 2.0)
    s = Simulation(lambda: F.batch_norm(x, mean, variance, gamma, beta), "input", [x, gamma], gradient_like(x.shape, generator(2)), eb=0.1)
    seen, found = s.observed(), s.simulated(40)
    assert seen["passed"].gain == 0 and found[0][0] == 0
    check(found[1][0] / (seen["scale"].gain * s.eb**2), 0.85, 1.15, "scale")


@pytest.mark.parametrize("form", [None, "row"])
@pytest.mark.parametrize("along", [0.0, 0.5])
def test_layer_norm(form, along):
    """Rows of very different deviations; `along`: part of the gradient along the normalised row."""
    x = leaf(randn(4, 197, 192) * torch.exp(randn(4, 197, 1, seed=5)) + 0.3)
    gamma, beta = leaf(randn(192, seed=1).abs() + 0.5), leaf(randn(192, seed=3))
    dy = (randn(4, 197, 192, seed=2) + along * F.layer_norm(x, (192,)).detach()) * torch.exp(0.5 * randn(4, 197, 1, seed=6))
    s = Simulation(lambda: F.layer_norm(x, (192,), gamma, beta), "input", [x, gamma], dy, eb=0.02, form=form)
    seen, found = s.observed(), s.simulated(20)
    check(found[0][0] / found[0][1] / (seen["passed"].gain * s.eb**2), 0.9, 1.1, "passed")
    check(found[1][0] / (seen["scale"].gain * s.eb**2), 0.9, 1.1, "scale")


def test_group_norm():
    x = leaf(randn(8, 32, 14, 14) * torch.exp(randn(8, 1, 1, 1, seed=5)))
    gamma, beta = leaf(randn(32, seed=1).abs() + 0.5), leaf(randn(32, seed=3))
    s = Simulation(lambda: F.group_norm(x, 4, gamma, beta), "input", [x, gamma], gradient_like(x.shape, generator(2)), eb=0.02)
    seen, found = s.observed(), s.simulated(40)
    check(found[0][0] / found[0][1] / (seen["passed"].gain * s.eb**2), 0.9, 1.1, "passed")
    check(found[1][0] / (seen["scale"].gain * s.eb**2), 0.85, 1.15, "scale")


# ---- elementwise ----

ELEMENTWISE = {"gelu": F.gelu, "silu": F.silu, "hardswish": F.hardswish, "sigmoid": torch.sigmoid, "tanh": torch.tanh}


@pytest.mark.parametrize("deviation", [0.5, 1, 3])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, deviation):
    x = leaf(randn(64, 197, 32) * deviation)
    field = "result" if name in ("sigmoid", "tanh") else "self"
    s = Simulation(lambda: ELEMENTWISE[name](x), field, [x], gradient_like(x.shape, generator(2)), eb=0.01)
    harm, energy = s.simulated(3)[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), *((0.5, 1.6) if name == "hardswish" else (0.8, 1.25)), name)


@pytest.mark.parametrize("deviation", [0.5, 1, 3])
@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_errors_of_log_odds(name, deviation):
    x, form = leaf(randn(64, 197, 32) * deviation), LogOddsForm(torch.float32, name == "tanh")
    s = Simulation(lambda: ELEMENTWISE[name](x), "result", [x], gradient_like(x.shape, generator(2)), eb=0.05, form="log_odds")

    def error(y):
        out = torch.empty_like(y)
        form.give_back(form.coded(form.rows(y), 0) + form.rows(s.uniform(y)), 0, s.eb, form.rows(out))
        return out - y

    harm, energy = s.simulated(3, error)[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.9, 1.1, name)


@pytest.mark.parametrize("name,field", [("exp", "result"), ("square", "self")])
def test_multiples_of_what_is_stored(name, field):
    x = leaf(randn(64, 197, 32))
    s = Simulation(lambda: torch.exp(x) if name == "exp" else x**2, field, [x], gradient_like(x.shape, generator(2)), eb=0.01)
    seen, (harm, energy) = s.observed()["passed"], s.simulated(3)[0]
    check(harm / energy / (seen.gain * s.eb**2), 0.9, 1.1)


# ---- softmax ----


@pytest.mark.parametrize("sharpness", [0.1, 1, 4])
def test_softmax(sharpness):
    x = leaf(randn(2, 4, 50, 64) * sharpness)
    x.data[..., 40:] = -float("inf")  # masked: zeros stay zeros
    s = Simulation(lambda: torch.softmax(x, -1), "result", [x], gradient_like(x.shape, generator(2), 3), eb=1e-4)
    harm, energy = s.simulated(8)[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.9, 1.1)


def test_softmax_along_another_dimension():
    x = leaf(randn(6, 40, 30))
    s = Simulation(lambda: torch.softmax(x, 1), "result", [x], gradient_like(x.shape, generator(2)), eb=1e-4)
    harm, energy = s.simulated(8)[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.9, 1.1)


def language_loss(sharpness, classes=5000, tokens=64):
    x = randn(tokens, classes) * sharpness
    target = torch.multinomial(torch.softmax(x, -1), 1, generator=generator(1))
    return leaf(x), torch.zeros(tokens, classes).scatter_(1, target, -1.0 / tokens)


@pytest.mark.parametrize("sharpness", [0.1, 1, 4])
def test_log_softmax(sharpness):
    x, dy = language_loss(sharpness)
    s = Simulation(lambda: torch.log_softmax(x, -1), "result", [x], dy, eb=0.02)
    harm, energy = s.simulated(8)[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.95, 1.05)


@pytest.mark.parametrize("sharpness", [0.1, 1, 4])
def test_log_softmax_of_rows_that_sum_to_1(sharpness):
    x, dy = language_loss(sharpness)
    s = Simulation(lambda: torch.log_softmax(x, -1), "result", [x], dy, eb=0.1, form="log_probability")
    form = LogProbabilityForm()

    def error(y):
        out = torch.empty_like(y)
        form.give_back(form.coded(y, 0) + s.uniform(y), 0, s.eb, out)
        return out - y

    harm, energy = s.simulated(8, error)[0]
    check(harm / energy / (s.observed()["passed"].gain * s.eb**2), 0.3, 1.05)  # less where one class has nearly all of a row


# ---- fused attention ----


def attention_loss(common, sharpness, causal, shape=(2, 3, 197, 64)):
    """Keys and values with something in common, as trained networks have."""
    q, k, v = (leaf(randn(*shape, seed=i) * size + common * randn(1, shape[1], 1, shape[3], seed=i + 9))
               for i, size in ((0, sharpness), (1, sharpness), (2, 1.0)))
    return [q, k, v], lambda: F.scaled_dot_product_attention(q * 1.0, k * 1.0, v * 1.0, is_causal=causal)


def check_attention(s, what):
    """The mean over all heads against all of them at once."""
    seen = [s.observed(turn)["passed"] for turn in range(6)]
    found = s.simulated(6)
    whole, worst = sum(one.gain for one in seen) / len(seen), sum(one.local for one in seen) / len(seen)
    check(sum(harm for harm, _ in found) / sum(energy for _, energy in found) / (whole * s.eb**2), 0.5, 1.5, what + ", whole")
    check(max(harm / energy for harm, energy in found) / (worst * s.eb**2), 0.5, 1.5, what + ", worst")


@pytest.mark.skipif(not HAS_ATTENTION, reason="this torch has no fused attention")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("common,sharpness", [(0.0, 0.5), (0.0, 1.5), (1.0, 0.7)])
@pytest.mark.parametrize("field", ["query", "key", "value", "output"])
def test_attention(field, common, sharpness, causal):
    leaves, make = attention_loss(common, sharpness, causal)
    s = Simulation(make, field, leaves, gradient_like((2, 3, 197, 64), generator(2), 3), eb=1e-3)
    check_attention(s, field)


@pytest.mark.skipif(not HAS_ATTENTION, reason="this torch has no fused attention")
def test_attention_with_a_mask():
    leaves, _ = attention_loss(0.5, 1.0, False)
    mask = torch.zeros(197, 197).masked_fill_(randn(197, 197, seed=8) > 0.5, -float("inf")).fill_diagonal_(0)
    s = Simulation(lambda: F.scaled_dot_product_attention(*(t * 1.0 for t in leaves), attn_mask=mask), "value", leaves,
                   gradient_like((2, 3, 197, 64), generator(2), 3), eb=1e-3)
    check_attention(s, "with a mask")


# ---- forms ----


@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_rows_come_back_within_the_bound(offset):
    x = randn(300, 64) * torch.exp(4 * randn(300, 1, seed=1)) + offset
    x[7] = 3.25  # no deviation at all: rstd is the root of 1 / epsilon
    mean, rstd = x.mean(1), (x.var(1, unbiased=False) + 1e-5).rsqrt()
    form, eb = RowForm(mean, rstd), 0.05
    assert form.fits(x, eb)
    e = (torch.rand(x.shape, generator=generator(3)) * 2 - 1) * eb
    out = torch.empty_like(x)
    form.give_back(form.coded(x, 0) + e, 0, eb, out)
    error = ((out.double() - x.double()) * rstd[:, None]).abs().max()
    assert error < eb * (1 + 1 / 16)


@pytest.mark.parametrize("what", ["mean", "nan", "infinite"])
def test_rows_that_do_not_fit(what):
    x = randn(10, 64)
    x[3] += 1e6 if what == "mean" else float("nan") if what == "nan" else float("inf")
    assert not RowForm(x.mean(1), (x.var(1, unbiased=False) + 1e-5).rsqrt()).fits(x, 1e-3)


def test_log_probabilities_along_another_dimension_do_not_fit():
    form, x = LogProbabilityForm(), randn(4, 21, 16, 16)
    assert form.fits(torch.log_softmax(x, -1), 1e-3)
    assert not form.fits(torch.log_softmax(x, 1), 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("of_tanh", [True, False])
def test_log_odds_come_back(dtype, of_tanh):
    """Slopes have a relative error of about eb, and the ends of the range are ends again."""
    x = torch.linspace(-60, 60, 30001, dtype=torch.float64).reshape(1, -1)
    y = (torch.tanh(x) if of_tanh else torch.sigmoid(x)).to(dtype)
    form, eb = LogOddsForm(dtype, of_tanh), 0.1
    e = (torch.rand(y.shape, generator=generator(3)) * 2 - 1).to(y.dtype if dtype is torch.float64 else torch.float32) * eb
    out = torch.empty_like(y)
    form.give_back(form.coded(form.rows(y), 0) + e.reshape(-1, 1), 0, eb, form.rows(out))
    ends = y.abs() == 1 if of_tanh else y == 1
    assert ends.any() and torch.equal(out[ends], y[ends])
    slope, found = (1 - v.double().square() if of_tanh else v.double() * (1 - v.double()) for v in (y, out))
    assert bool(((found - slope).abs() <= 0.11 * slope + 2 * torch.finfo(dtype).eps).all())


# ---- sums over parts of large tensors ----


@pytest.mark.parametrize("layout", ["planar", "channels last", "transposed"])
def test_energy_of_a_large_tensor(layout):
    x = gradient_like((32, 48, 40, 40), generator(1), 2)
    x = x.contiguous(memory_format=torch.channels_last) if layout == "channels last" else x.transpose(2, 3) if layout == "transposed" else x
    whole = float(x.double().square().sum())
    check(energy(x) / whole, 0.9, 1.1, layout)
    check(float(channel_energies(x).sum()) / whole, 0.9, 1.1, layout)
    few = x[:2, :3]
    assert energy(few) == pytest.approx(float(few.double().square().sum()), rel=1e-5)
    assert channel_energies(few) == pytest.approx(few.double().square().sum((0, 2, 3)), rel=1e-5)
