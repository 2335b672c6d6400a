"""CometCallback in the Trainer of Lightning."""
import pytest
import torch
from torch import nn

pytest.importorskip("lightning")

import lightning  # noqa: E402
from company import assert_nothing_left  # noqa: E402
from lightning.pytorch.callbacks import Callback, ModelCheckpoint  # noqa: E402

from comet_torch.lightning import CometCallback  # noqa: E402

EPOCHS, BATCHES = 3, 6


class Module(lightning.LightningModule):
    """Its training_step calls a part, not itself, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.GELU(),
                                 nn.Flatten(), nn.Linear(16 * 64, 4))
        self.losses = []
        self.fail_at = None

    def training_step(self, batch, i):
        if self.fail_at == (self.current_epoch, i):
            raise RuntimeError("the step failed")
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, i):
        self.log("val_loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3, momentum=0.9)


class Alternating(Module):
    """Two optimisers, stepped by hand."""

    automatic_optimization = False

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, i):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(nn.functional.cross_entropy(self.net(batch[0]), batch[1]))
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(self.net[:3].parameters(), lr=1e-3), torch.optim.SGD(self.net[3:].parameters(), lr=1e-3)]


def loader():
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.randn(BATCHES * 16, 3, 8, 8, generator=generator),
                                          torch.randint(4, (BATCHES * 16,), generator=generator))
    return torch.utils.data.DataLoader(data, batch_size=16)


def fit(folder, *callbacks, module=None, path=None, validate=False, **options):
    """A module after training, and its trainer."""
    if module is None:
        torch.manual_seed(1)
        module = Module()
    trainer = lightning.Trainer(**{"max_epochs": EPOCHS, "accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False,
                                   "enable_model_summary": False, "default_root_dir": folder, "log_every_n_steps": 1,
                                   "enable_checkpointing": any(isinstance(c, ModelCheckpoint) for c in callbacks), **options},
                                callbacks=list(callbacks))
    trainer.fit(module, loader(), loader() if validate else None, ckpt_path=path)
    return module, trainer


def weights_of(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_report_and_log_come_from_one_callback(tmp_path):
    seen = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer, *others):
            seen.append(dict(trainer.logged_metrics))

    callback = CometCallback()
    module, trainer = fit(tmp_path, callback, Watch())
    assert "net.2" in callback.memory.report()
    assert callback.memory.figures.totals()["ratio"] > 1.5
    assert callback.memory.assessor.step == EPOCHS * BATCHES
    last = trainer.logged_metrics
    assert last["comet_ratio"] > 1.5 and 0 < last["comet_stored_peak_mb"] < last["comet_process_peak_mb"]
    assert len(seen) == EPOCHS * BATCHES
    assert_nothing_left(callback.memory, module, trainer.optimizers[0] if trainer.optimizers else None)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_lossless_training_is_the_plain_one(tmp_path, accumulated):
    plain, _ = fit(tmp_path, accumulate_grad_batches=accumulated)
    coded, _ = fit(tmp_path, CometCallback(eb="lossless"), accumulate_grad_batches=accumulated)
    assert coded.losses == plain.losses and torch.equal(weights_of(coded), weights_of(plain))


def test_accumulated_batches_are_one_step_of_the_same_places(tmp_path):
    callback, single = CometCallback(), CometCallback()
    fit(tmp_path, callback, accumulate_grad_batches=3)
    fit(tmp_path, single)
    assert callback.memory.assessor.step == EPOCHS * BATCHES // 3
    assert [site.key for site in callback.memory.hooks.sites.all] == [site.key for site in single.memory.hooks.sites.all]


def test_validation_does_not_disturb(tmp_path):
    without, _ = fit(tmp_path, CometCallback())
    within, trainer = fit(tmp_path, CometCallback(), validate=True, val_check_interval=2)
    assert within.losses == without.losses and torch.equal(weights_of(within), weights_of(without))
    assert "val_loss" in trainer.callback_metrics


def test_resumed_run_is_the_uninterrupted_one(tmp_path):
    whole, whole_callback = None, CometCallback()
    whole, _ = fit(tmp_path, whole_callback)
    first, _ = fit(tmp_path, CometCallback(), ModelCheckpoint(tmp_path, filename="first", save_last=False), max_epochs=1)
    callback = CometCallback()
    second, _ = fit(tmp_path, callback, path=tmp_path / "first.ckpt")
    assert first.losses + second.losses == whole.losses
    assert torch.equal(weights_of(second), weights_of(whole))
    assert callback.memory.state_dict()["bounds"]["numbers"] == whole_callback.memory.state_dict()["bounds"]["numbers"]


def test_checkpoint_without_bounds_is_resumed(tmp_path):
    fit(tmp_path, ModelCheckpoint(tmp_path, filename="first"), max_epochs=1)
    callback = CometCallback()
    fit(tmp_path, callback, path=tmp_path / "first.ckpt")
    assert callback.memory.assessor.step == (EPOCHS - 1) * BATCHES


def test_exception_leaves_nothing_behind(tmp_path):
    torch.manual_seed(1)
    module, callback = Module(), CometCallback()
    module.fail_at = (1, 2)
    with pytest.raises(RuntimeError, match="the step failed"):
        fit(tmp_path, callback, module=module)
    assert callback.memory.figures.totals()["tensors"] > 0
    assert_nothing_left(callback.memory, module)
    module.fail_at = None
    fit(tmp_path, callback, module=module, max_epochs=1)  # the same callback once more
    assert callback.memory.assessor.step == BATCHES


def test_two_optimizers_stepped_by_hand(tmp_path):
    torch.manual_seed(1)
    callback = CometCallback()
    module, _ = fit(tmp_path, callback, module=Alternating(), max_epochs=1)
    assert callback.memory.figures.totals()["ratio"] > 1
    assert callback.memory.assessor.step == 2 * BATCHES - 1  # the last one has no forward after it
    assert_nothing_left(callback.memory, module)
