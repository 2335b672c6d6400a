"""The loss of each backward pass, as autograd's engine is called with it: no script has to hand it over."""
import contextlib

from torch.autograd import Variable


class _Engine:
    def __init__(self, engine, loss_known):
        self.engine, self.loss_known = engine, loss_known

    def run_backward(self, tensors, *args, **options):
        if options.get("accumulate_grad") and len(tensors) == 1 and tensors[0].numel() == 1 and tensors[0].device.type == "cpu":
            self.loss_known(float(tensors[0].detach()))
        return self.engine.run_backward(tensors, *args, **options)

    def __getattr__(self, name):
        return getattr(self.engine, name)


@contextlib.contextmanager
def watch_loss(loss_known):
    """Within it, loss_known(loss) is called before each backward() of one number on the CPU. torch.autograd.grad does not count."""
    before = Variable._execution_engine
    Variable._execution_engine = _Engine(before, loss_known)
    try:
        yield
    finally:
        Variable._execution_engine = before
