"""What the callbacks of training programs share: one context for one training, its state, and figures for their logs."""
from .context import compress
from .peak_memory import resident

_MB = 1e6


class TrainingContext:
    """Opens compress() when training begins and closes it when training ends. Options are those of compress().

    `memory` is what compress() returned. It stays after the end, for memory.report().
    """

    def __init__(self, **options):
        self.options = options
        self.memory = None
        self._is_open = False

    def open(self, model, optimizer, state=None):
        """Training begins. A context that an interrupted training left open is closed before."""
        self.close()
        self.memory = compress(model, optimizer, **self.options)
        if state is not None:
            self.memory.load_state_dict(state)
        self.memory.__enter__()
        self._is_open = True

    def close(self):
        """Training ended, however it did. Without an open context nothing happens."""
        if self._is_open:
            self._is_open = False
            self.memory.__exit__(None, None, None)

    def log_figures(self):
        """For a log: raw against stored bytes so far, the most memory that coded tensors took, and the peak of the process."""
        totals = self.memory.figures.totals()
        return {"comet_ratio": round(totals["ratio"], 2) if totals["stored"] else 1.0,
                "comet_stored_peak_mb": round(totals["peak_stored"] / _MB, 2),
                "comet_process_peak_mb": round(resident("VmHWM") / _MB, 1)}
