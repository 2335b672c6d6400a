#!/usr/bin/env python3
"""Prints the figures of docs/theory.md, sections 5 and 8, by simulation. Needs numpy.

usage: tools/check_theory.py
"""
import numpy as np

RNG = np.random.default_rng(2)


def stored(x, eb, mode):
    """What comes back of x: rounded "nearest", with "signs" kept (as the codec's keep support), or with "dither"."""
    if mode == "signs":
        return np.sign(x) * (2 * np.ceil(np.abs(x) / (2 * eb)) - 1) * eb
    u = RNG.uniform(-0.5, 0.5, x.shape) if mode == "dither" else 0
    return 2 * eb * (np.round(x / (2 * eb) + u) - u)


def batch_norm(eb, rho, mode, m=4096, draws=2000):
    """Energies of the errors of d gamma and of dx over the predicted ones; one channel, gamma 1, beta 0.3."""
    scale = passed = 0
    for _ in range(draws):
        x = RNG.normal(size=m)
        xhat = (x - x.mean()) / x.std()
        dy = rho * xhat + np.sqrt(1 - rho**2) * RNG.normal(size=m)
        back = stored(xhat + 0.3, eb, mode) - 0.3
        s, s_back = (dy * xhat).mean(), (dy * back).mean()
        scale += (m * (s_back - s)) ** 2 / ((dy**2).sum() * eb**2 / 3) / draws
        passed += ((back * s_back - xhat * s) ** 2).sum() / ((m * s**2 + (dy**2).mean()) * eb**2 / 3) / draws
    return scale, passed


def cut_off(eb, coarse, rho, m=4096, draws=1000):
    """Energy of the error of dx after a relu over the bound on it, with errors `coarse` times larger where it did not pass."""
    measured = allowed = 0
    for _ in range(draws):
        x = RNG.normal(size=m)
        xhat = (x - x.mean()) / x.std()
        dy = np.where(xhat > 0, rho * xhat + np.sqrt(1 - rho**2) * RNG.normal(size=m), 0)
        back = np.where(xhat > 0, stored(xhat, eb, "signs"), stored(xhat, coarse * eb, "signs"))
        s, s_back = (dy * xhat).mean(), (dy * back).mean()
        measured += ((back * s_back - xhat * s) ** 2).sum()
        allowed += (m * s**2 * coarse**2 + (dy**2).mean()) * eb**2 / 3
    return measured / allowed


def folded(eb, rho, mode, mean_dy=0.2, channels=16, out=64, m=2048, draws=200):
    """Energies of the errors of d gamma and of dz over the predicted ones, batch norm of z = W a with a stored after a relu."""
    scale = passed = scale_predicted = passed_predicted = 0
    for _ in range(draws):
        w = RNG.normal(size=(out, channels))
        a = np.maximum(RNG.normal(size=(channels, m)), 0)
        z, z_back = w @ a, w @ stored(a, eb, mode)
        r = 1 / z.std(1, keepdims=True)
        xhat, back = (z - z.mean(1, keepdims=True)) * r, (z_back - z_back.mean(1, keepdims=True)) * r
        dy = mean_dy + rho * xhat + np.sqrt(1 - rho**2) * RNG.normal(size=(out, m))
        centred = dy - dy.mean(1, keepdims=True)
        s, s_back = (dy * xhat).mean(1, keepdims=True), (dy * back).mean(1, keepdims=True)
        variance = (a > 0).mean() * r**2 * (w**2).sum(1, keepdims=True) * eb**2 / 3
        scale += ((m * (s_back - s)) ** 2).sum()
        passed += (r**2 * (back * s_back - xhat * s) ** 2).sum()
        scale_predicted += ((centred**2).sum(1, keepdims=True) * variance).sum()
        passed_predicted += (r**2 * (m * s**2 + (centred**2).mean(1, keepdims=True)) * variance).sum()
    return scale / scale_predicted, passed / passed_predicted


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu_slope(x):
    s = sigmoid(x)
    return s + x * s * (1 - s)


def silu(eb, mode):
    """What the passed gradient is scaled by, for x ~ N(0, 1)."""
    x = RNG.normal(size=1_000_000)
    slope = silu_slope(x)
    return (silu_slope(stored(x, eb, mode)) * slope).sum() / (slope**2).sum()


def elementwise_gains():
    x = np.linspace(-40, 40, 800_001)
    s = sigmoid(x)
    s1 = s * (1 - s)
    slope, bend = s + x * s1, 2 * s1 + x * s1 * (1 - 2 * s)
    for std in (0.5, 1, 2, 4):
        p = np.exp(-((x / std) ** 2) / 2)
        print(f"input N(0, {std}^2): SiLU {(p * bend**2).sum() / (p * slope**2).sum() / 3:.3f}, "
              f"sigmoid {(p * (1 - 2 * s) ** 2).sum() / (p * s1**2).sum() / 3:.2f}")
    p, inside = np.exp(-(x**2) / 2), np.abs(x) < 3
    slope = np.where(x >= 3, 1, np.where(inside, (2 * x + 3) / 6, 0))
    print(f"hard-swish {(p * inside / 9).sum() / (p * slope**2).sum() / 3:.3f}")


def lrn_gradient(x, dy, alpha, k=1.0, beta=0.75, size=5):
    def window(v):
        padded = np.pad(v, ((size // 2, size // 2), (0, 0)))
        return sum(padded[i : i + len(v)] for i in range(size))

    norm = k + alpha / size * window(x * x)
    return dy * norm**-beta - 2 * alpha * beta / size * x * window(dy * x * norm ** (-beta - 1))


def lrn(alpha_x2):
    """Relative energy over that of a product, at alpha mean(x^2) = alpha_x2 k."""
    x, dy, eb = np.maximum(RNG.normal(size=(64, 2000)), 0), RNG.normal(size=(64, 2000)), 0.1
    e = np.where(x > 0, RNG.uniform(-eb, eb, x.shape), 0)
    exact, off = (lrn_gradient(v, dy, alpha_x2 / (x**2).mean()) for v in (x, x + e))
    return ((off - exact) ** 2).sum() / (exact**2).sum() / (eb**2 * (x > 0).mean() / (3 * (x**2).mean()))


def mean_error(eb, mean, n=20000, draws=400):
    """Energy of the error of one weight after relu(N(0, 1)) over G eb^2, and the formula's."""
    true = formula = 0
    for _ in range(draws):
        x, dy = np.maximum(RNG.normal(size=n), 0), RNG.normal(size=n) + mean
        e, share = stored(x, eb, "signs") - x, (x > 0).mean()
        e[x == 0] = 0
        true += (dy * e).sum() ** 2 / (share / 3 * (dy**2).sum() * eb**2) / draws
        kappa = dy.mean() ** 2 / (dy**2).mean()
        formula += (1 + 3 * (np.sqrt(2 / np.pi) * eb / 3) ** 2 * share * n * kappa) / draws
    return true, formula


def main():
    for rho in (0, 0.05, 0.3):
        for eb in (0.1, 0.3):
            scale, passed = folded(eb, rho, "signs")
            print(f"folded batch norm, rho {rho}, eb {eb} std: scale {scale:.2f}, passed on {passed:.2f}")
    for rho in (0.05, 0.3):
        for coarse in (1, 2, 4, 8):
            ratio = cut_off(0.125, coarse, rho)
            print(f"cut off, rho {rho}, eb 0.125 std, {coarse} times as coarse: {ratio:.2f} of what is allowed for")
    elementwise_gains()
    for alpha_x2 in (0.005, 0.5, 50):
        print(f"LRN, alpha mean(x^2) = {alpha_x2} k: {lrn(alpha_x2):.4f} of a product's")
    modes = ("nearest", "signs", "dither")
    for rho in (0, 0.3):
        for eb in (0.1, 0.3, 0.5, 0.75, 1, 1.5, 2):
            pairs = ", ".join("{} {:.2f} {:.2f}".format(mode, *batch_norm(eb, rho, mode)) for mode in modes)
            print(f"batch norm, rho {rho}, eb {eb} std, scale and passed on: {pairs}")
    for eb in (0.1, 0.5, 1, 1.5):
        print(f"SiLU, eb {eb} std, scaled by: nearest {silu(eb, 'nearest'):.4f}, dither {silu(eb, 'dither'):.4f}")
    for eb, mean in ((0.1, 0.2), (0.3, 0.05), (0.3, 0.2)):
        print("mean error, eb {} std, mean(dY) {}: {:.2f}, formula {:.2f}".format(eb, mean, *mean_error(eb, mean)))


if __name__ == "__main__":
    main()
