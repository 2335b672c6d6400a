"""Lightning with compressed activations: Trainer(callbacks=[CometCallback()]).

The context is open while a batch is trained. Lightning saves the bounds in its checkpoints with the other callbacks' state.
"""
try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from .context import compress


class CometCallback(Callback):
    """Options are those of comet_torch.compress. `memory` is what that returned, for the run that began last."""

    def __init__(self, **options):
        self.options = options
        self.memory = None
        self._open = False
        self._loaded = None

    def report(self):
        return self.memory.report() if self.memory is not None else "comet_torch: training has not begun"

    def on_train_start(self, trainer, pl_module):
        self._leave()
        # Where several optimisers take turns, a step ends where forward follows a backward pass.
        optimizer = trainer.optimizers[0] if len(trainer.optimizers) == 1 else None
        self.memory = compress(pl_module, optimizer, **self.options)
        if self._loaded is not None:
            self.memory.load_state_dict(self._loaded)
            self._loaded = None

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.memory.__enter__()
        self._open = True

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self._leave()

    def on_train_end(self, trainer, pl_module):
        self._leave()

    def on_exception(self, trainer, pl_module, exception):
        self._leave()

    def state_dict(self):
        return self.memory.state_dict() if self.memory is not None else {}

    def load_state_dict(self, state_dict):
        self._loaded = state_dict or None

    def _leave(self):
        if self._open:
            self._open = False
            self.memory.__exit__(None, None, None)
