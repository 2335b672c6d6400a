"""Forms: tensors of which other values are coded than their own, in pieces of whole rows, so that copies stay small.

row           (x - mean) * rstd of each row of a layer norm or RMS norm, with the mean and rstd that its node keeps exactly. The bound is
              the same for all rows in units of their deviation, as that of the gradients which errors disturb is. x comes back
              within eb / rstd of its row, plus the rounding of x itself. Where that rounding is not small beside eb (means of
              more than 10^4 deviations), or a mean or rstd is not finite, `RowForm.fits` is False, and the tensor is coded without this.
log_probability  a log-softmax result y over its last dimension, with errors that are independent of y (dither): where a net has
              learnt how frequent its classes are and no more, the rows are all alike, and rounded values would all err to the same side.
              What comes back is log-softmax of what was stored, so that each row sums to 1 again: within 2 eb of y.
log_odds      log(p / (1 - p)) of p, a result of sigmoid, or (1 + y) / 2 of a result y of tanh. The slope at y, by which backward
              multiplies, then has about the same relative error everywhere, also close to the ends of the range, where an error of
              the same size in all values would be larger than it. Values that have reached an end come back there.
"""
import math

import torch

from .handles import fills_its_memory
from .session import Prepared

_SUM_TOLERANCE = 0.02  # bfloat16 results sum to 1 within less
_PIECE_BYTES = 8 << 20
_ROUNDING = 2.0**-24
_LEAST_QUOTIENT = 16  # of the bound and the rounding of x


class RowForm:
    def __init__(self, mean, rstd):
        """mean: None for RMS norm. Their elements are rows of the tensor."""
        self.rstd = rstd.detach().reshape(-1, 1)
        self.mean = None if mean is None else mean.detach().reshape(-1, 1)

    def fits(self, tensor, eb):
        if not tensor.is_contiguous() or tensor.numel() % max(1, self.rstd.numel()):
            return False
        largest = float(self.rstd.abs().max()) if self.mean is None else float((self.mean * self.rstd).abs().max())
        finite = bool(torch.isfinite(self.rstd).all()) and bool((self.rstd > 0).all())
        return finite and largest * _ROUNDING * _LEAST_QUOTIENT <= eb  # false for NaN, too

    def rows(self, tensor):
        return tensor.reshape(self.rstd.numel(), -1)

    def coded(self, x, first):
        rows = slice(first, first + x.shape[0])
        x = x if x.dtype == torch.float64 else x.float()
        return x * self.rstd[rows] if self.mean is None else (x - self.mean[rows]).mul_(self.rstd[rows])

    def give_back(self, coded, first, eb, out):
        rows = slice(first, first + out.shape[0])
        coded.div_(self.rstd[rows])
        if self.mean is not None:
            coded.add_(self.mean[rows])
        out.copy_(coded)


class LogProbabilityForm:
    def fits(self, tensor, eb):
        """Are the rows along the last dimension those that log-softmax made? Their sums tell."""
        if not tensor.is_contiguous() or tensor.dim() == 0 or tensor.numel() == 0 or tensor.shape[-1] < 2:
            return False
        rows = tensor.detach().reshape(-1, tensor.shape[-1])
        sums = torch.exp(rows[:: max(1, rows.shape[0] // 4)].float()).sum(-1)
        return bool(((sums - 1).abs() < _SUM_TOLERANCE).all())

    def rows(self, tensor):
        return tensor.reshape(-1, tensor.shape[-1])

    def coded(self, y, first):
        return y if y.dtype == torch.float64 else y.float()

    def give_back(self, coded, first, eb, out):
        out.copy_(torch.log_softmax(coded, -1))


class LogitsForm(LogProbabilityForm):
    """What comes back are log-probabilities, not the logits."""

    def fits(self, tensor, eb):
        return tensor.is_contiguous()

    def coded(self, x, first):
        return torch.log_softmax(super().coded(x, first), -1)


class LogOddsForm:
    """Of results of tanh, or else of sigmoid."""

    def __init__(self, dtype, of_tanh):
        limits, self.of_tanh = torch.finfo(dtype), of_tanh
        # Beyond all values of the type but the ends themselves, to which these limits round.
        self.greatest = math.log((16 if of_tanh else 8) / limits.eps)
        self.least = -self.greatest if of_tanh else math.log(limits.tiny)

    def fits(self, tensor, eb):
        return fills_its_memory(tensor)

    def rows(self, tensor):
        """Single elements, in the order of memory."""
        return tensor.detach().as_strided((tensor.numel(), 1), (1, 1))

    def coded(self, y, first):
        y = y if y.dtype == torch.float64 else y.float()
        z = torch.atanh(y).mul_(2) if self.of_tanh else torch.logit(y)
        return z.clamp_(self.least, self.greatest)

    def give_back(self, coded, first, eb, out):
        out.copy_(coded.div_(2).tanh_() if self.of_tanh else coded.sigmoid_())


class Pieces:
    """Blocks of a tensor in a form. `seed()` is that of a piece's dither, or None."""

    def __init__(self, session, form, tensor, bound, seed):
        self.form, self.blocks, self.eb = form, [], bound.eb
        self.n_nonzero = self.n_nonfinite = 0
        self.seconds = 0.0
        rows = form.rows(tensor)
        bytes_row = rows.shape[1] * (8 if tensor.dtype == torch.float64 else 4)
        self.n_rows = max(1, _PIECE_BYTES // bytes_row)
        prepared = None
        for first in range(0, rows.shape[0], self.n_rows):
            coded = form.coded(rows[first : first + self.n_rows], first)
            if prepared is None or prepared.shape != coded.shape:
                prepared = Prepared(coded, False)
            self.blocks.append(session.encode(prepared, coded, bound, seed=seed()))
            job = prepared.job
            self.n_nonzero += job.n_nonzero
            self.n_nonfinite += job.n_nonfinite
            self.seconds += job.seconds

    def decode(self, decode, dense):
        """decode(block, tensor) fills a tensor from one block."""
        rows = self.form.rows(dense)
        dtype = torch.float64 if dense.dtype == torch.float64 else torch.float32
        for i, block in enumerate(self.blocks):
            out = rows[i * self.n_rows : (i + 1) * self.n_rows]
            coded = out if dense.dtype == dtype else torch.empty(out.shape, dtype=dtype, device=out.device)
            decode(block, coded)
            self.form.give_back(coded, i * self.n_rows, self.eb, out)
