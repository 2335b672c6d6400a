"""CometCallback in Lightning's Trainer."""
import warnings

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from comet_torch.lightning import CometCallback  # noqa: E402


class Net(lightning.LightningModule):
    def __init__(self, fail_at=None):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                                        torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                                        torch.nn.Flatten(), torch.nn.Linear(16, 10))
        self.fail_at = fail_at

    def training_step(self, batch, index):
        if index == self.fail_at:
            raise KeyError("no such batch")
        return torch.nn.functional.cross_entropy(self.body(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05, 0.9)


def data(n=128):
    g = torch.Generator().manual_seed(1)
    pictures = torch.utils.data.TensorDataset(torch.randn(n, 3, 16, 16, generator=g), torch.randint(10, (n,), generator=g))
    return torch.utils.data.DataLoader(pictures, batch_size=16)


def fit(folder, callback, epochs, net=None, resume=None, **options):
    net = net or Net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[callback], logger=False, enable_progress_bar=False,
                                    enable_model_summary=False, enable_checkpointing=False, default_root_dir=str(folder), **options)
        trainer.fit(net, data(), ckpt_path=resume, weights_only=False) if resume else trainer.fit(net, data())
    return trainer, net


def no_hooks():
    x = torch.ones(100, 100, requires_grad=True)
    y = x.exp()
    return y.grad_fn._saved_result.data_ptr() == y.data_ptr()


def test_one_callback_compresses(tmp_path):
    callback = CometCallback(eb="0.05std")
    fit(tmp_path, callback, 1)
    totals = callback.memory.figures.totals()
    assert totals["stored"] * 3 < totals["raw"]
    assert "body.0" in callback.report()
    assert no_hooks()


def test_steps_are_the_optimisers(tmp_path):
    callback = CometCallback()
    fit(tmp_path, callback, 1, accumulate_grad_batches=2)
    assert callback.memory.assessor.step == 4


def test_a_resumed_run_has_the_bounds_bit_for_bit(tmp_path):
    whole = CometCallback()
    _, expected = fit(tmp_path, whole, 2)
    half, _ = fit(tmp_path, CometCallback(), 1)
    half.save_checkpoint(tmp_path / "half.ckpt")
    resumed = CometCallback()
    _, net = fit(tmp_path, resumed, 2, resume=str(tmp_path / "half.ckpt"))
    assert resumed.memory.assessor.step == 16
    assert all(torch.equal(a, b) for a, b in zip(expected.parameters(), net.parameters()))


def test_an_exception_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyError):
        fit(tmp_path, CometCallback(eb="0.05std"), 1, net=Net(fail_at=2))
    assert no_hooks()
