"""Errors put into what real autograd nodes saved, to compare what they do to gradients with what comet_torch predicts."""
from types import SimpleNamespace

import torch

from comet_torch.roles import kind_of, role_of
from comet_torch.uses import Facts, watch_of

FIELDS = ("input", "weight", "bias", "result", "result1", "result2", "self", "other", "mat1", "mat2", "batch1", "batch2", "query", "key",
          "value", "output", "logsumexp", "attn_mask", "running_mean", "running_var")


def same(a, b):
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


class Simulation:
    """One node whose saved field `field` has errors. `make()` returns the result of the node (`node_of` finds it where that is not its
    grad_fn); `leaves` are the tensors whose gradients count."""

    def __init__(self, make, field, leaves, dy, node_of=lambda y: y.grad_fn, eb=0.01, form=None, seed=987654321):
        self.leaves, self.dy, self.eb, self.form = leaves, dy, eb, form
        self.generator = torch.Generator().manual_seed(seed)
        self.target = self.error = None
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), self._unpack):
            self.y = make()
        self.node = node_of(self.y)
        self.kind = kind_of(self.node)
        self.fields = self._fields()
        self.field = self.fields[field]
        self.target = self.field.tensor
        self.nonzero = float((self.target != 0).float().mean())

    def _fields(self):
        fields = {}
        for name in FIELDS:
            tensor = getattr(self.node, "_saved_" + name, None)
            if isinstance(tensor, torch.Tensor):
                fields[name] = SimpleNamespace(key=name, field=name, role=role_of(self.node, self.kind, name, tensor), tensor=tensor)
        return fields

    def _unpack(self, tensor):
        if self.target is None or self.error is None or not same(tensor, self.target):
            return tensor
        return tensor + self.error(tensor)

    def uniform(self, tensor):
        """Independent, uniform, zeros exact; in the rows' own units for the form "row"."""
        e = (torch.rand(tensor.shape, generator=self.generator) * 2 - 1) * self.eb
        if self.form == "row":
            rstd = self.fields["result2"].tensor
            e = (e.reshape(rstd.numel(), -1) / rstd.reshape(-1, 1)).reshape(tensor.shape)
        return torch.where(tensor == 0, torch.zeros(()), e)

    def gradients(self):
        return [None if g is None else g.double() for g in
                torch.autograd.grad(self.y, self.leaves, self.dy, retain_graph=True, allow_unused=True)]

    def simulated(self, draws=12, error=None):
        """[(mean squared error, energy)] of the leaves' gradients."""
        exact = self.gradients()
        harm = [0.0] * len(exact)
        for _ in range(draws):
            self.error = error or self.uniform
            for i, g in enumerate(self.gradients()):
                harm[i] += 0.0 if g is None else float((g - exact[i]).square().sum()) / draws
            self.error = None
        return [(h, 0.0 if g is None else float(g.square().sum())) for h, g in zip(harm, exact)]

    def observed(self, turn=0):
        """{kind of observation: Observation} of the field, from one exact backward pass."""
        facts = {f.key: Facts(self.eb, self.nonzero, self.form, turn, False, ()) for f in self.fields.values() if f is self.field}
        watch, found = watch_of(self.node, self.kind, self.fields, facts), []
        handle = self.node.register_hook(lambda grad_inputs, grad_outputs: found.extend(watch.observe(grad_inputs, grad_outputs)))
        self.gradients()
        handle.remove()
        return {seen.kind: seen for seen in found if seen.key == self.field.key}


def gradient_like(shape, generator, rows=0):
    """As gradients are: of very different sizes along the first dimensions."""
    dy = torch.randn(shape, generator=generator)
    return dy * torch.exp(torch.randn(tuple(shape[: rows or 1]) + (1,) * (len(shape) - (rows or 1)), generator=generator))
