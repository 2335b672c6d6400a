"""The Hugging Face Trainer with compressed activations: Trainer(..., callbacks=[CometCallback()]).

The context is open from the first micro-batch of a step until the optimiser's step: neither evaluation nor loading nor saving runs
within. Checkpoints of the Trainer get a file with the bounds, with which a resumed run goes on.
"""
import os
import sys

import torch
from transformers import Trainer, TrainerCallback

from .context import compress


def _file(folder, args):
    return os.path.join(folder, f"comet_bounds_{args.process_index}.pt")


def _running_train():
    """The Trainer whose train() is running, and the checkpoint that it resumes. Callbacks are told neither."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "train" and isinstance(owner, Trainer):
            return owner, frame.f_locals.get("resume_from_checkpoint")
        frame = frame.f_back
    raise RuntimeError("CometCallback serves transformers.Trainer.train(), which is not running here: use comet_torch.compress instead")


class CometCallback(TrainerCallback):
    """Options are those of comet_torch.compress. `memory` is what that returned, for the run that began last."""

    def __init__(self, **options):
        self.options = options
        self.memory = None
        self._open = False

    def report(self):
        return self.memory.report() if self.memory is not None else "comet_torch: training has not begun"

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        self._leave()
        trainer, checkpoint = _running_train()
        self.memory = compress(model, optimizer, **self.options)
        if checkpoint and os.path.isfile(_file(checkpoint, args)):
            self.memory.load_state_dict(torch.load(_file(checkpoint, args)))
        self._leave_at_exceptions(trainer)

    def on_step_begin(self, args, state, control, **kwargs):
        self._leave()
        self.memory.__enter__()
        self._open = True

    def on_step_end(self, args, state, control, **kwargs):
        self._leave()

    def on_train_end(self, args, state, control, **kwargs):
        self._leave()

    def on_save(self, args, state, control, **kwargs):
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        os.makedirs(folder, exist_ok=True)
        torch.save(self.memory.state_dict(), _file(folder, args))

    def _leave(self):
        if self._open:
            self._open = False
            self.memory.__exit__(None, None, None)

    def _leave_at_exceptions(self, trainer):
        """No event tells callbacks of an exception."""
        before = vars(trainer).get("training_step")
        if getattr(before, "comet_callback", None) is self:
            return
        call = trainer.training_step

        def training_step(*args, **options):
            try:
                return call(*args, **options)
            except BaseException:
                self._leave()
                raise

        training_step.comet_callback = self
        trainer.training_step = training_step
