"""A callback for the Trainer of Hugging Face transformers, all that a script adds.

    from comet_torch.huggingface import CometCallback
    callback = CometCallback()
    Trainer(model, arguments, train_dataset=texts, callbacks=[callback]).train()
    print(callback.memory.report())

Trainer tells its callbacks neither that training failed nor from which checkpoint it goes on. So the first CometCallback wraps
Trainer.train, which does nothing for a Trainer without one.
"""
import functools
import os

import torch

from .callback import TrainingContext

try:
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise ImportError(
        f"CometCallback for the Trainer needs the package transformers, version 5: pip install transformers ({error})") from error


class CometCallback(TrainingContext, TrainerCallback):
    """Keeps what forward saves for backward compressed while the Trainer trains. Options are those of comet_torch.compress().

    Bounds are saved in each checkpoint and loaded on resume. Memory figures are added to the Trainer's logs of training. `memory` is
    what compress() returned, for memory.report() and memory.state_dict().
    """

    def __init__(self, **options):
        super().__init__(**options)
        self._trainer = self._checkpoint = None
        _wrap_train()

    # ---- called by the wrapped Trainer.train ----

    def _enter(self, trainer, checkpoint):
        self._trainer, self._checkpoint = trainer, checkpoint
        callbacks = trainer.callback_handler.callbacks
        callbacks.remove(self)
        callbacks.insert(0, self)  # before those that write logs

    def _leave(self):
        self.close()
        self._trainer = self._checkpoint = None

    # ---- called by the Trainer ----

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **others):
        if self._trainer is not None:
            model = _without_parallel(self._trainer.model_wrapped)
        self.open(model, optimizer, _load(self._checkpoint, args))

    def on_log(self, args, state, control, logs=None, **others):
        if self.memory is None or not {"loss", "train_loss"} & set(logs):
            return  # figures of an evaluation
        figures = self.log_figures()
        logs.update(figures)
        state.log_history[-1].update(figures)

    def on_save(self, args, state, control, **others):
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if os.path.isdir(folder):  # that of a trial of a hyperparameter search has another name, and is not resumed
            torch.save(self.memory.state_dict(), os.path.join(folder, _file_name(args)))

    def on_train_end(self, args, state, control, **others):
        self.close()


def _without_parallel(model):
    """The model that names of modules begin at. A compiled one stays: hooks within it would break its code into parts."""
    parallel = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    return model.module if isinstance(model, parallel) else model


def _file_name(args):
    """Each process has its own bounds."""
    return f"comet_bounds_{args.process_index}.pt"


def _load(checkpoint, args):
    """The state in a checkpoint, or None where it was saved without Comet."""
    path = None if checkpoint is None else os.path.join(checkpoint, _file_name(args))
    return torch.load(path, weights_only=True) if path is not None and os.path.isfile(path) else None


def _wrap_train():
    if hasattr(Trainer.train, "comet_torch"):
        return
    train = Trainer.train

    @functools.wraps(train)
    def watched(trainer, resume_from_checkpoint=None, *args, **options):
        callbacks = [callback for callback in trainer.callback_handler.callbacks if isinstance(callback, CometCallback)]
        checkpoint = get_last_checkpoint(trainer.args.output_dir) if resume_from_checkpoint is True else resume_from_checkpoint or None
        try:
            for callback in callbacks:
                callback._enter(trainer, checkpoint)
            return train(trainer, resume_from_checkpoint, *args, **options)
        finally:
            for callback in callbacks:
                callback._leave()

    watched.comet_torch = True
    Trainer.train = watched
