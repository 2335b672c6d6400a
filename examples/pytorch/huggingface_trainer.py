"""Trains a small GPT-2 on the text of a file with the Trainer of Hugging Face; one callback keeps its activations compressed.

    python -m comet_torch run examples/pytorch/huggingface_trainer.py --steps 100
    python -m comet_torch run examples/pytorch/huggingface_trainer.py --text book.txt --out run     # go on later with --resume
"""
import argparse
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from comet_torch.huggingface import CometCallback


class Windows(torch.utils.data.Dataset):
    """Pieces of a text, byte by byte: a model of them needs no tokenizer."""

    def __init__(self, text, length):
        self.tokens, self.length = torch.tensor(list(text)), length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, i):
        piece = self.tokens[i * self.length:(i + 1) * self.length]
        return {"input_ids": piece, "labels": piece}


def made_up_text(n_words=40000):
    """Words in random order: a model learns to spell them."""
    words = "the memory of a step is what forward keeps for backward and the bound of each tensor says how much error it may have".split()
    order = torch.randint(len(words), (n_words,), generator=torch.Generator().manual_seed(1))
    return " ".join(words[i] for i in order).encode()


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", help="a text to learn (made-up words)")
    parser.add_argument("--out", help="folder of checkpoints (a temporary one)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    parser.add_argument("--plain", action="store_true", help="train without Comet, to compare")
    for name, default, meaning in (("steps", 200, "training steps"), ("batch", 8, "pieces of text in a step"),
                                   ("length", 256, "bytes in a piece"), ("width", 256, "size of the model's vectors"),
                                   ("depth", 4, "layers of the model"), ("seed", 1, "of weights and order")):
        parser.add_argument("--" + name, type=int, default=default, help=f"{meaning} ({default})")
    return parser.parse_args()


def main():
    options = read_arguments()
    set_seed(options.seed)
    if options.text:
        with open(options.text, "rb") as file:
            text = file.read()
    else:
        text = made_up_text()
    texts = Windows(text, options.length)
    if len(texts) == 0:
        raise SystemExit(f"the text is shorter than one piece of {options.length} bytes (--length)")
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=options.length, n_embd=options.width, n_layer=options.depth,
                                       n_head=max(1, options.width // 64), bos_token_id=0, eos_token_id=0))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(options.out or folder, max_steps=options.steps, per_device_train_batch_size=options.batch,
                                      learning_rate=1e-3, logging_steps=min(10, options.steps), save_steps=50, seed=options.seed,
                                      use_cpu=True, report_to="none")
        callback = CometCallback()
        trainer = Trainer(model, arguments, train_dataset=texts, callbacks=[] if options.plain else [callback])
        trainer.train(resume_from_checkpoint=options.resume)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"loss: {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
    if not options.plain:
        print(callback.memory.report())


if __name__ == "__main__":
    main()
