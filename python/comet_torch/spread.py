"""Elements spread evenly over a tensor: the same positions of any two tensors of one shape, whatever their strides."""
import functools
import math

import torch


def _coprime_step(n, n_taken):
    """About n / n_taken, without a common factor with n: so that the positions meet every index of every dimension."""
    step = max(1, n // n_taken)
    while math.gcd(step, n) != 1:
        step -= 1
    return step


@functools.lru_cache(maxsize=256)
def _positions(shape, n_taken):
    n = math.prod(shape)
    flat = torch.arange(min(n, n_taken)) * _coprime_step(n, n_taken)
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat = torch.div(flat, size, rounding_mode="floor")
    return tuple(reversed(index))


def taken(tensor, n_taken=4096):
    """Up to n_taken elements, as float32 in a tensor of their own."""
    if tensor.dim() == 0:
        return tensor.detach().float().reshape(1)
    return tensor.detach()[_positions(tuple(tensor.shape), n_taken)].float()


def rows_of(n, n_taken):
    """Up to n_taken row numbers of 0 to n - 1, evenly spaced."""
    return torch.arange(n) if n <= n_taken else torch.div(torch.arange(n_taken) * n, n_taken, rounding_mode="floor")


def _memory_view(tensor):
    """A dense tensor's elements in the order of memory, or None."""
    if not tensor.is_contiguous() and not (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)):
        return None
    return tensor.as_strided((tensor.numel(),), (1,))


def runs_of(tensor, most, run=64):
    """Up to `most` elements of a dense tensor, as runs of neighbours evenly spaced in memory; the tensor itself where it is not larger or
    not dense. For sums that would read all of a large tensor otherwise."""
    n = tensor.numel()
    flat = _memory_view(tensor.detach()) if n > most else None
    if flat is None:
        return tensor.detach()
    n_runs = most // run
    step = _coprime_step(n - run, n_runs)
    return flat.as_strided((n_runs, run), (step, 1), tensor.storage_offset())


def rows_between(size, n, most):
    """The step between rows so that about `most` of n elements are left, but two rows at least."""
    return max(1, min(size // 2, n // max(1, most)))
