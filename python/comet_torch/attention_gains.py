"""What errors in q, k, v and the output of fused attention do to the gradients that it passes on.

Fused attention does not store its matrix P of probabilities: backward computes P = exp(s q k^T - lse) again, from stored q and k and
the exact logarithm lse of each row's sum. Then dV = P^T dO, dP = dO V^T, dS = P (dP - D) with D = rowsum(dO O), dQ = s dS K and
dK = s dS^T Q. docs/theory.md, section 9, has what an error in each of them does. How it adds up depends on how sharp the attention is
and on what its keys have in common, so it is computed here, to first order, for some rows of one head with errors drawn at random.
"""
import torch

from .gains import energy, ratio
from .spread import rows_of

_ROWS = 128
_MOST_KEYS = 4096
_SEED = 20240


class AttentionSample:
    """Rows of one head of one example, as forward has them: tensors are (example, head, position, feature)."""

    def __init__(self, q, k, v, turn, causal=False, scale=None, mask=None):
        n, heads, length = q.shape[0], q.shape[1], q.shape[2]
        one = turn % (n * heads)
        self.example, self.head = one // heads, one % heads
        self.rows = rows_of(length, _ROWS)
        of_keys = self.head // (heads // k.shape[1])  # several heads may share keys
        pick = (self.example, self.head, self.rows)
        self.q = q.detach()[pick].float()
        self.k = k.detach()[self.example, of_keys].float().clone()
        self.v = v.detach()[self.example, of_keys].float().clone()
        self.scale = float(scale) if scale is not None else q.shape[-1] ** -0.5
        self.mask = _mask_of(mask, causal, (n, heads, length, k.shape[2]), pick, q.device)

    def gains(self, dout):
        """Of q, k, v and the output: (gain of all three gradients together, largest gain of one of them), from the output's gradient."""
        return _gains(self, dout.detach()[self.example, self.head, self.rows].float())


def usable(q, k):
    return q.dim() == 4 and k.dim() == 4 and k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0 and k.shape[2] <= _MOST_KEYS


def _mask_of(mask, causal, shape, pick, device):
    """What is added to the logits of the picked rows, or None."""
    if mask is not None:
        rows = mask.detach().expand(shape)[pick]
        return torch.zeros(rows.shape, device=device).masked_fill_(~rows, -float("inf")) if rows.dtype == torch.bool else rows.float()
    if not causal:
        return None
    keys = torch.arange(shape[3])
    hidden = keys[None, :] > pick[2][:, None]
    return torch.zeros(hidden.shape, device=device).masked_fill_(hidden.to(device), -float("inf"))


def _gains(a, dout):
    s, q, k, v = a.scale, a.q, a.k, a.v
    logits = s * (q @ k.T)
    p = torch.softmax(logits if a.mask is None else logits + a.mask, -1)
    dp = dout @ v.T
    out = p @ v
    ds = p * (dp - (dout * out).sum(-1, keepdim=True))
    passed = (energy(s * (ds @ k)), energy(s * (ds.T @ q)), energy(p.T @ dout))
    generator = torch.Generator().manual_seed(_SEED)

    def drawn(like):  # variance 1: ratio() divides by 3
        return ((torch.rand(like.shape, generator=generator) * 2 - 1) * 3**0.5).to(like.device)

    def both(*errors):
        harm = [energy(error) for error in errors]
        each = [ratio(one, whole) for one, whole in zip(harm, passed)]
        return ratio(sum(harm), sum(passed)), None if None in each else max(each)

    e = drawn(q)
    by_q = s * (e @ k.T)
    gain_q = both(s * ((ds * by_q) @ k), s * ((ds * by_q).T @ q + ds.T @ e), (p * by_q).T @ dout)
    e = drawn(k)
    by_k = s * (q @ e.T)
    gain_k = both(s * ((ds * by_k) @ k + ds @ e), s * ((ds * by_k).T @ q), (p * by_k).T @ dout)
    by_v = p * (dout @ drawn(v).T)
    gain_v = both(s * (by_v @ k), s * (by_v.T @ q))
    by_out = p * (dout * drawn(out)).sum(-1, keepdim=True)
    return gain_q, gain_k, gain_v, both(s * (by_out @ k), s * (by_out.T @ q))
