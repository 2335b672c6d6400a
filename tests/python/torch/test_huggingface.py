"""CometCallback in the Trainer of transformers. tests/python/examples runs a program with it."""
import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from company import assert_nothing_left  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed  # noqa: E402

import comet_torch  # noqa: E402
from comet_torch.huggingface import CometCallback  # noqa: E402

LENGTH, STEPS = 64, 8


class Words(torch.utils.data.Dataset):
    def __init__(self, n=64, fail_at=None):
        first = torch.randint(32, (n, 1), generator=torch.Generator().manual_seed(3))
        self.tokens = (first + torch.arange(LENGTH)) % 32
        self.fail_at, self.n_read = fail_at, 0

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        self.n_read += 1
        if self.n_read == self.fail_at:
            raise OSError("the disk is gone")
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


class Stop(TrainerCallback):
    """Ends training, or raises, after a step."""

    def __init__(self, step, error=None):
        self.step, self.error = step, error

    def on_step_end(self, args, state, control, **others):
        if state.global_step == self.step:
            if self.error is not None:
                raise self.error
            control.should_training_stop = True


def trainer_of(folder, *callbacks, data=None, dropout=0.1, **arguments):
    """A small GPT-2, each time with the same weights."""
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
                                       embd_pdrop=dropout, resid_pdrop=dropout, attn_pdrop=dropout))
    options = {"max_steps": STEPS, "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "learning_rate": 1e-2,
               "use_cpu": True, "report_to": "none", "disable_tqdm": True, **arguments}
    return Trainer(model, TrainingArguments(str(folder), **options), train_dataset=data or Words(), eval_dataset=Words(8),
                   callbacks=list(callbacks))


def losses_of(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def weights_of(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def test_report_and_log_come_from_one_callback(tmp_path):
    callback = CometCallback()
    trainer = trainer_of(tmp_path, callback)
    trainer.train()
    assert "transformer.h.0.mlp.c_fc" in callback.memory.report()
    assert callback.memory.figures.totals()["ratio"] > 2
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == STEPS and all(entry["comet_ratio"] > 1 for entry in logged)
    assert all(0 < entry["comet_stored_peak_mb"] < entry["comet_process_peak_mb"] for entry in logged)
    assert losses_of(trainer)[-1] < losses_of(trainer)[0]
    assert callback.memory.assessor.step == STEPS
    assert_nothing_left(callback.memory, trainer.model, trainer.optimizer.optimizer)


def test_logs_reach_callbacks_that_were_there_before(tmp_path):
    seen = []

    class Writer(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **others):
            seen.append("comet_ratio" in logs)

    trainer_of(tmp_path, Writer(), CometCallback(), max_steps=2).train()
    assert seen == [True] * 3


def test_lossless_training_is_the_plain_one_with_accumulation(tmp_path):
    plain = trainer_of(tmp_path, gradient_accumulation_steps=2)
    plain.train()
    coded = trainer_of(tmp_path, CometCallback(eb="lossless"), gradient_accumulation_steps=2)
    coded.train()
    assert losses_of(coded) == losses_of(plain)
    assert torch.equal(weights_of(coded), weights_of(plain))


def test_step_is_one_of_the_optimizer_with_accumulation(tmp_path):
    callback = CometCallback()
    trainer_of(tmp_path, callback, gradient_accumulation_steps=4).train()
    assert callback.memory.assessor.step == STEPS


def test_evaluation_does_not_disturb(tmp_path):
    """Without dropout: also in plain training, loading the data of an evaluation draws random numbers."""
    without = trainer_of(tmp_path, CometCallback(), dropout=0.0)
    without.train()
    within = trainer_of(tmp_path, CometCallback(), dropout=0.0, eval_strategy="steps", eval_steps=2, eval_on_start=True)
    within.train()
    assert losses_of(within) == losses_of(without)
    assert torch.equal(weights_of(within), weights_of(without))
    evaluated = [entry for entry in within.state.log_history if "eval_loss" in entry]
    assert len(evaluated) == STEPS // 2 + 1 and not any("comet_ratio" in entry for entry in evaluated)


@pytest.mark.parametrize("accumulated, named", [(1, True), (2, False)])
def test_resumed_run_is_the_uninterrupted_one(tmp_path, accumulated, named):
    arguments = {"save_strategy": "steps", "save_steps": 4, "gradient_accumulation_steps": accumulated}
    callback = CometCallback()
    whole = trainer_of(tmp_path / "whole", callback, **arguments)
    whole.train()
    trainer_of(tmp_path / "parts", CometCallback(), Stop(4), **arguments).train()
    second = CometCallback()
    resumed = trainer_of(tmp_path / "parts", second, **arguments)
    resumed.train(resume_from_checkpoint=str(tmp_path / "parts" / "checkpoint-4") if named else True)
    assert losses_of(resumed)[-4:] == losses_of(whole)[-4:]
    assert torch.equal(weights_of(resumed), weights_of(whole))
    assert second.memory.state_dict()["bounds"]["numbers"] == callback.memory.state_dict()["bounds"]["numbers"]


def test_checkpoint_without_bounds_is_resumed(tmp_path):
    arguments = {"save_strategy": "steps", "save_steps": 4}
    trainer_of(tmp_path, Stop(4), **arguments).train()
    callback = CometCallback()
    trainer_of(tmp_path, callback, **arguments).train(resume_from_checkpoint=True)
    assert callback.memory.assessor.step == STEPS - 4
    assert (tmp_path / "checkpoint-8" / "comet_bounds_0.pt").is_file()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_exception_leaves_nothing_behind(tmp_path, error):
    callback = CometCallback()
    trainer = trainer_of(tmp_path, callback, Stop(3, error))
    with pytest.raises(type(error)):
        trainer.train()
    assert callback.memory.figures.totals()["tensors"] > 0 and "all" in callback.memory.report()
    assert_nothing_left(callback.memory, trainer.model, trainer.optimizer.optimizer)


def test_failing_data_and_forward_leave_nothing_behind(tmp_path):
    callback = CometCallback()
    trainer = trainer_of(tmp_path, callback, data=Words(fail_at=10))
    with pytest.raises(OSError, match="disk"):
        trainer.train()
    assert_nothing_left(callback.memory, trainer.model, trainer.optimizer.optimizer)
    data = Words()
    data.tokens[5, 5] = 99  # no such word
    trainer = trainer_of(tmp_path, callback, data=data, max_steps=16)
    with pytest.raises(IndexError):
        trainer.train()
    assert_nothing_left(callback.memory, trainer.model, trainer.optimizer.optimizer)


def test_trainer_without_the_callback_is_plain(tmp_path):
    CometCallback()
    trainer = trainer_of(tmp_path, max_steps=2)
    assert trainer.train().global_step == 2
    assert "comet_ratio" not in trainer.state.log_history[0]


def test_wrong_option_stops_training(tmp_path):
    trainer = trainer_of(tmp_path, CometCallback(eb="much"))
    with pytest.raises((TypeError, ValueError)):
        trainer.train()


def test_root_of_the_package_has_it():
    assert comet_torch.CometCallback is CometCallback
