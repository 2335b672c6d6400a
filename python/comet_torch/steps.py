"""When an optimiser has made a step."""
import functools

import torch


def _innermost(optimizer):
    """The optimiser within wrappers that are optimisers themselves without being set up as one: accelerate's and Lightning's."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    return optimizer


def after_step(optimizer, call):
    """Calls `call` after each step of the optimiser, until remove() of what is returned."""
    optimizer = _innermost(optimizer)
    if hasattr(optimizer, "register_step_post_hook"):
        return optimizer.register_step_post_hook(lambda *_: call())
    return _Wrapped(optimizer, call)


class _Wrapped:
    """The method step of one optimiser, replaced: torch before 2.0 has no hook."""

    def __init__(self, optimizer, call):
        self.optimizer, self.call = optimizer, call
        before = optimizer.step

        @functools.wraps(before)
        def step(*args, **options):
            result = before(*args, **options)
            if self.call is not None:
                self.call()
            return result

        self.before, self.step = before, step
        optimizer.step = step

    def remove(self):
        self.call = None
        if self.optimizer.step is self.step:  # else somebody wrapped it once more, and this wrapper does nothing from now on
            self.optimizer.step = self.before
