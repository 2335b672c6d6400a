"""A callback for the Trainer of Lightning, all that a script adds.

    from comet_torch.lightning import CometCallback
    callback = CometCallback()
    Trainer(callbacks=[callback]).fit(module, loader)
    print(callback.memory.report())
"""
from .callback import TrainingContext

try:
    from lightning.pytorch import Callback
except ImportError as error:
    try:
        from pytorch_lightning import Callback
    except ImportError:
        raise ImportError(f"CometCallback for Lightning needs the package lightning, version 2: pip install lightning ({error})") from error


class CometCallback(TrainingContext, Callback):
    """Keeps what forward saves for backward compressed while the Trainer fits. Options are those of comet_torch.compress().

    Bounds are part of each checkpoint and go on where training resumes from one. Memory figures are logged with those of the module.
    `memory` is what compress() returned, for memory.report() and memory.state_dict().
    """

    def __init__(self, **options):
        super().__init__(**options)
        self._state = None

    def on_train_start(self, trainer, pl_module):
        optimizers = trainer.optimizers
        state, self._state = self._state, None
        # With several optimisers a step ends where forward follows a backward pass.
        self.open(pl_module, optimizers[0] if len(optimizers) == 1 else None, state)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.memory.hooks.sites.restart()  # training_step is no forward of the module, with which names would begin anew

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pl_module.log_dict(self.log_figures())

    def on_train_end(self, trainer, pl_module):
        self.close()

    def on_exception(self, trainer, pl_module, exception):
        self.close()

    def teardown(self, trainer, pl_module, stage):
        self.close()

    def state_dict(self):
        return {} if self.memory is None else self.memory.state_dict()

    def load_state_dict(self, state_dict):
        self._state = state_dict or None
