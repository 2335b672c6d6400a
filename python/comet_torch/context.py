"""`compress`: the context manager that a training script uses."""
import os
import weakref

import torch

from .allocator import warn_once_if_default_allocator_defeats_saving
from .assess import Assessor
from .bounds import FixedBounds, level_of, parse_bound
from .cross_entropy import blockwise
from .hooks import Hooks
from .intervals import edges
from .losses import watch_loss
from .modules import watch_modules
from .policy import Policy
from .report import Report
from .session import Session
from .steps import after_step
from .structure import structure_of, watch_backward

_LEAST_BYTES = 8192
_OLDEST = (1, 13)
_STATE_VERSION = 1


def compress(model=None, optimizer=None, *, eb=None, level="auto", noise=0.01, overrides=None):
    """Keeps what forward saves for backward compressed, within the `with` block.

    model, optimizer: whose bounds adapt. A step is one of the optimiser's; without one, it ends where forward follows a backward pass.
    eb: a fixed bound instead, for all tensors that may have an error: a number, "0.1std", "0.01range" or "lossless".
    level: "fast", "dense" (fewer bytes, more time) or "auto": dense where that is worth its time. Values are the same.
    noise: the share of each gradient's own noise that errors may add, for bounds that adapt.
    overrides: parts of the model by patterns of their modules' names, {"layer1.*": dict(eb=...), "*.attn": "lossless"}; "raw" leaves
    tensors alone, and the last pattern that fits decides.
    """
    return Memory(model, optimizer, eb=eb, level=level, noise=noise, overrides=overrides)


def _check_torch():
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < _OLDEST:
        raise RuntimeError(f"torch {torch.__version__} is too old for comet_torch: install torch 1.13 or later")


def _check_kinds(model, optimizer):
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}: compress(model, optimizer) needs a torch.nn.Module")
    if optimizer is not None and not callable(getattr(optimizer, "step", None)):
        raise TypeError(f"the optimizer is a {type(optimizer).__name__}, which has no method step")


class Memory:
    """What `compress` returns: the context manager, and what it saw."""

    def __init__(self, model, optimizer, *, eb, level, noise, overrides):
        _check_torch()
        _check_kinds(model, optimizer)
        level_of(level)
        edges()
        if eb is None and model is None:
            raise ValueError('without a model a fixed bound is needed: compress(eb="0.1std"), or compress(model, optimizer)')
        policy = Policy(model, overrides, eb, level)
        self.assessor = Assessor(noise, level) if eb is None else FixedBounds(parse_bound(eb, level))
        self.model, self.optimizer = model, optimizer
        self.session = Session()
        self.figures = Report(self.assessor, self.session)
        self.hooks = Hooks(self.session, policy, self.assessor, self.figures, _LEAST_BYTES)
        self._handles, self._open = [], []

    def __enter__(self):
        if self._open:
            raise RuntimeError("this context is open already: a second one needs a compress() of its own")
        warn_once_if_default_allocator_defeats_saving()
        hooks = self.hooks
        hooks.step_by_backward = self.optimizer is None
        if self.model is not None:
            self._handles += watch_modules(self.model, hooks.sites)
        if self.optimizer is not None:
            self._handles.append(after_step(self.optimizer, hooks.end_step))
        _live.add(self)
        try:
            for context in (watch_backward(), watch_loss(self.assessor.loss_known), structure_of(hooks), blockwise(hooks),
                            torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack)):
                context.__enter__()
                self._open.append(context)
        except BaseException:
            self._close(None, None, None)
            raise
        return self

    def __exit__(self, *error):
        self._close(*error)
        if error[0] is None:
            self.hooks.devices.check()

    def _close(self, *error):
        while self._open:
            self._open.pop().__exit__(*error)
        while self._handles:
            self._handles.pop().remove()
        self.hooks.flush()
        self.hooks.recent = None
        _live.discard(self)

    def report(self):
        """What was coded, by module: tensors, raw and stored bytes, ratio, bound, measured error, time; totals; the peak."""
        return self.figures.text()

    def state_dict(self):
        """The bounds and all that decides later ones, to be saved with a checkpoint, between steps."""
        return {"version": _STATE_VERSION, "sites": self.hooks.sites.state(), "bounds": self.assessor.state_dict()}

    def load_state_dict(self, state):
        """Goes on with the bounds of a state_dict()."""
        if not isinstance(state, dict) or state.get("version") != _STATE_VERSION:
            raise ValueError("this is no state of comet_torch.compress of this version: it comes from mem.state_dict()")
        self.assessor.load_state_dict(state["bounds"])
        self.hooks.sites.load(state["sites"])


_live = weakref.WeakSet()


def _forked():
    """A forked process has the hooks but neither the threads nor the pool: tensors pass through there."""
    for memory in _live:
        memory.hooks.active = False


os.register_at_fork(after_in_child=_forked)
