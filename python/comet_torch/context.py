"""`compress`: the context manager that a training script uses."""
import torch

from .bounds import FixedBounds
from .hooks import Hooks
from .policy import Policy, parse_bound
from .report import Report
from .session import Session
from .steps import after_step
from .structure import structure_of, watch_backward

_LEAST_BYTES = 8192


def compress(model=None, optimizer=None, *, eb=None, level="fast", overrides=None):
    """Keeps what forward saves for backward compressed, within the `with` block.

    eb: a fixed bound for all tensors that may have an error: a number, "0.1std" or "lossless".
    level: "fast", "dense" or "auto".
    overrides: bounds of parts of the model by the pattern of their modules' names, {"layer1.*": dict(eb=...), "*.attn": "lossless"};
    the last that fits decides.
    """
    return Memory(model, optimizer, eb=eb, level=level, overrides=overrides)


class Memory:
    """What `compress` returns: a context manager, and what it saw."""

    def __init__(self, model, optimizer, *, eb, level, overrides):
        if eb is None:
            raise ValueError('a bound is needed, such as eb="0.1std"')
        self.model, self.optimizer = model, optimizer
        self.session = Session()
        self.figures = Report()
        bound = parse_bound(eb, level)
        assessor = FixedBounds(bound.eb, bound.relative == "std", bound.level)
        self.hooks = Hooks(self.session, Policy(model, overrides, eb, level), assessor, self.figures, _LEAST_BYTES)
        self.handles = []
        self.open = []

    def __enter__(self):
        hooks = self.hooks
        hooks.step_by_backward = self.optimizer is None
        self._watch_modules()
        if self.optimizer is not None:
            self.handles.append(after_step(self.optimizer, hooks.end_step))
        self.open = [watch_backward(), structure_of(hooks), torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack)]
        for context in self.open:
            context.__enter__()
        return self

    def __exit__(self, *error):
        for context in reversed(self.open):
            context.__exit__(*error)
        for handle in self.handles:
            handle.remove()
        self.open, self.handles = [], []
        self.hooks.flush()
        self.hooks.recent = None

    def _watch_modules(self):
        if self.model is None:
            return
        sites = self.hooks.sites
        for name, module in self.model.named_modules():
            def before(module, inputs, name=name):
                if name == "":
                    sites.restart()
                sites.enter(name)

            def after(module, inputs, output, name=name):
                sites.leave(name)

            self.handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]

    def report(self):
        return str(self.figures)
