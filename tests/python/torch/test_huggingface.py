"""CometCallback in the Trainer of transformers, and compress with an optimiser that accelerate has prepared."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import comet_torch  # noqa: E402
from comet_torch.huggingface import CometCallback  # noqa: E402

WIDTH, LENGTH = 64, 64


def model():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=128, n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=2, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(config)


def examples(n=64):
    tokens = torch.randint(128, (n, LENGTH), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": t, "labels": t} for t in tokens]


def trainer(folder, callback, net=None, max_steps=6, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=max_steps, per_device_train_batch_size=8, learning_rate=1e-3, report_to=[], use_cpu=True,
        logging_strategy="no", save_strategy=options.pop("save_strategy", "no"), disable_tqdm=True, seed=3, **options)
    return transformers.Trainer(model=net or model(), args=arguments, train_dataset=examples(), callbacks=[callback] if callback else [])


def weights(net):
    return [p.detach().clone() for p in net.parameters()]


def no_hooks():
    """Nothing saved here goes through hooks of ours."""
    x = torch.ones(100, 100, requires_grad=True)
    y = x.exp()
    return y.grad_fn._saved_result.data_ptr() == y.data_ptr()


def test_one_callback_compresses(tmp_path):
    callback = CometCallback(eb="0.05std")
    trainer(tmp_path, callback).train()
    totals = callback.memory.figures.totals()
    assert totals["stored"] * 2 < totals["raw"]
    assert "transformer.h.0" in callback.report()
    assert no_hooks()


def test_lossless_is_plain_training(tmp_path):
    plain, exact = trainer(tmp_path / "a", None), trainer(tmp_path / "b", CometCallback(eb="lossless"))
    plain.train(), exact.train()
    assert all(torch.equal(a, b) for a, b in zip(weights(plain.model), weights(exact.model)))


def test_steps_are_the_optimisers(tmp_path):
    callback = CometCallback()
    trainer(tmp_path, callback, max_steps=4, gradient_accumulation_steps=2).train()
    assert callback.memory.assessor.step == 4


def test_a_resumed_run_has_the_bounds_bit_for_bit(tmp_path):
    whole = CometCallback()
    first = trainer(tmp_path, whole, max_steps=6, save_strategy="steps", save_steps=3)
    first.train()
    assert (tmp_path / "checkpoint-3" / "comet_bounds_0.pt").is_file()
    resumed = CometCallback()
    second = trainer(tmp_path, resumed, max_steps=6, save_strategy="no")
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.memory.assessor.step == whole.memory.assessor.step == 6
    assert all(torch.equal(a, b) for a, b in zip(weights(first.model), weights(second.model)))


def test_an_exception_leaves_nothing_behind(tmp_path):
    net, calls = model(), []

    def interrupt(*_):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    net.transformer.h[1].register_forward_pre_hook(interrupt)
    run = trainer(tmp_path, CometCallback(eb="0.05std"), net=net)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert no_hooks()


def test_outside_of_the_trainer_it_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="comet_torch.compress instead"):
        CometCallback().on_train_begin(None, None, None)


def test_accelerate_needs_nothing():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = model()
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), 1e-3))
    batch = torch.stack([e["input_ids"] for e in examples(8)])
    with comet_torch.compress(net, optimizer) as mem:
        for _ in range(6):
            with accelerator.accumulate(net):
                accelerator.backward(net(batch, labels=batch).loss)
                optimizer.step()
                optimizer.zero_grad()
    assert mem.assessor.step == 3
    assert mem.figures.totals()["ratio"] > 1.5
