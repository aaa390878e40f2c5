"""A tiny language model, trained by transformers.Trainer on a text: as ever, in a block that saves and resumes it.

The model is made on the spot, and a letter is a token: nothing is fetched. On a laptop `python finetune.py`, on
slices as README.md beside it says.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import prefect_tpu as tpu

LENGTH = 64  # letters of an example


def main(steps: int = 60, batch: int = 4) -> dict[str, float]:
    """Train for `steps` steps of `batch` examples on each host."""
    tpu.join("torch")
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=128, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        output_dir="trained",
        max_steps=steps,
        per_device_train_batch_size=batch,
        learning_rate=3e-3,
        logging_steps=5,
        save_strategy="no",  # the block says when
        report_to=[],
        disable_tqdm=True,
        ddp_find_unused_parameters=True,  # the same bits after a restart: docs/how-to/pytorch.md says why
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=examples())
    with tpu.transformers_trainer(trainer) as checkpoint:
        trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model(str(tpu.info().output / "model"))
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"first loss": losses[0], "last loss": losses[-1]}


def examples() -> list[dict[str, torch.Tensor]]:
    path = tpu.info().data.get("text", Path(__file__).with_name("README.md"))
    letters = torch.tensor([min(ord(letter), 127) for letter in path.read_text()])
    rows = letters[: len(letters) // LENGTH * LENGTH].reshape(-1, LENGTH)
    return [{"input_ids": row, "labels": row} for row in rows]


if __name__ == "__main__":
    print(main())
