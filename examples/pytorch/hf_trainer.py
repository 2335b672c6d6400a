"""The Hugging Face Trainer with one callback: a GPT-2 of a few layers that learns the bytes of a text.

    python -m comet_torch run examples/pytorch/hf_trainer.py --steps 100
"""
import time

import gpt
import kit
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from comet_torch.huggingface import CometCallback


def pieces(data, length):
    return [{"input_ids": piece, "labels": piece} for piece in data.split(length) if len(piece) == length]


def main():
    args = kit.arguments(__doc__, text="", out="runs/hf_trainer", steps=60, batch=8, length=128, width=192, depth=4, heads=4, rate=1e-3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=args.length, n_embd=args.width, n_layer=args.depth,
                                       n_head=args.heads, bos_token_id=0, eos_token_id=0))
    options = TrainingArguments(output_dir=args.out, max_steps=args.steps, per_device_train_batch_size=args.batch,
                                learning_rate=args.rate, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True,
                                disable_tqdm=True, seed=args.seed)
    comet = CometCallback()
    trainer = Trainer(model=model, args=options, train_dataset=pieces(gpt.bytes_of(args.text), args.length),
                      callbacks=[] if args.raw else [comet])
    begin = time.perf_counter()
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    kit.summary(losses, time.perf_counter() - begin, comet.memory)


if __name__ == "__main__":
    main()
