"""What the hosts of the frameworks tier run: tiny programs, each with random numbers of its own on every host."""

from __future__ import annotations

import hashlib
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, skip_first_batches
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import prefect_tpu as tpu

FEATURES, BATCH = 4, 2


class Draws:
    """Batches that a host draws for itself, and where it is among them."""

    def __init__(self, host: int) -> None:
        self.host, self.drawn = host, 0

    def __next__(self) -> torch.Tensor:
        self.drawn += 1
        return torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(1000 * self.host + self.drawn))

    def state_dict(self) -> dict[str, int]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.drawn = state["drawn"]


def network(width: int = 8) -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(FEATURES, width), nn.Dropout(0.5), nn.Tanh(), nn.Linear(width, FEATURES))


def digest(module: nn.Module) -> str:
    parts = [f"{name} {value.detach().numpy().tobytes().hex()}" for name, value in sorted(module.state_dict().items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def ddp(steps: int, pause: float = 0.0) -> dict[str, Any]:
    tpu.join("torch")
    host = tpu.info().host
    net = network()
    # Else it lays its gradients out anew after its first step, and what is summed in another order has other last bits.
    model = DistributedDataParallel(net, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
    torch.manual_seed(host)  # each host drops others
    draws = Draws(host)
    with tpu.torch_checkpoints(model, optimizer, more={"rates": rates}, data=draws) as checkpoints:
        start = checkpoints.restore()
        for step in range(start, steps):
            rows = next(draws)
            optimizer.zero_grad()
            for number, part in enumerate(rows.chunk(2)):  # two small batches, whose slopes cross hosts together
                with model.no_sync() if number == 0 else nullcontext(), torch.autocast("cpu", torch.bfloat16):
                    loss = nn.functional.mse_loss(model(part), part)
                    (loss / 2).backward()
            optimizer.step()
            rates.step()
            time.sleep(pause)  # so that a test can strike in between
            tpu.report(step, loss=loss)
            checkpoints.save(step)
    return {"start": start, "drawn": draws.drawn, "digest": digest(net), "rate": rates.get_last_lr()[0]}


def accelerated(steps: int, pause: float = 0.0) -> dict[str, Any]:
    tpu.join("torch")
    accelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    net = network()
    rows = torch.randn(64, FEATURES, generator=torch.Generator().manual_seed(3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    own = torch.Generator().manual_seed(5)  # else each pass begins by a number of the generator that dropout draws from
    loader = DataLoader(TensorDataset(rows), batch_size=BATCH, generator=own)
    model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    torch.manual_seed(accelerator.process_index)
    with tpu.torch_checkpoints(model, optimizer) as checkpoints:
        start = step = checkpoints.restore()
        an_epoch = len(loader)
        while step < steps:
            for (batch,) in skip_first_batches(loader, step % an_epoch):
                loss = nn.functional.mse_loss(model(batch), batch)
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
                time.sleep(pause)
                tpu.report(step, loss=loss)
                checkpoints.save(step)
                step += 1
                if step == steps:
                    break
    return {"start": start, "digest": digest(net), "processes": accelerator.num_processes}


class Slowly(TrainerCallback):
    def __init__(self, pause: float) -> None:
        self.pause = pause

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        time.sleep(self.pause)


def new_trainer(steps: int, pause: float = 0.0, **more: Any) -> Trainer:
    torch.manual_seed(7)
    size = {"n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 32, "n_positions": 8}
    model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=0))
    words = torch.randint(0, 32, (64, 8), generator=torch.Generator().manual_seed(1))
    arguments = TrainingArguments(
        output_dir="out", max_steps=steps, per_device_train_batch_size=2, logging_steps=1, report_to=[],
        disable_tqdm=True, seed=5, learning_rate=0.01, dataloader_pin_memory=False, save_strategy="no",
        ddp_find_unused_parameters=True, bf16=True, use_cpu=True, gradient_accumulation_steps=2, **more,
    )  # fmt: skip
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": row, "labels": row} for row in words],
        eval_dataset=[{"input_ids": row, "labels": row} for row in words[:16]],
        callbacks=[Slowly(pause)],
    )


def trained(steps: int, pause: float = 0.0) -> dict[str, Any]:
    tpu.join("torch")
    trainer = new_trainer(steps, pause)
    with tpu.transformers_trainer(trainer) as checkpoint:
        ended = trainer.train(resume_from_checkpoint=checkpoint)
    judged = trainer.evaluate()["eval_loss"]  # of all hosts
    return {
        "start": checkpoint and Path(checkpoint).name,
        "digest": digest(trainer.model),
        "steps": ended.global_step,
        "judged": judged,
    }


def evaluated(steps: int, every: float, **more: Any) -> dict[str, float]:
    """step → what the Trainer's evaluation after it came to. The worst ones stay: the first, as it learns."""
    tpu.join("torch")
    trainer = new_trainer(steps, **more)
    with tpu.transformers_trainer(trainer, every=every, best=("eval_loss", "max", 1), keep=1) as checkpoint:
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.evaluate()  # of no step
    return {str(each["step"]): each["eval_loss"] for each in trainer.state.log_history[:-1] if "eval_loss" in each}


def trained_again() -> None:
    trainer = new_trainer(3)
    with tpu.transformers_trainer(trainer) as checkpoint:
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.train()


def never_evaluated() -> None:
    tpu.transformers_trainer(new_trainer(1), best=("eval_loss", "min", 1))


def started_from(width: int = 8, part: str | None = None) -> dict[str, Any]:
    """Restores, and says what came of it."""
    tpu.join("torch")
    net = network(width)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    before = digest(net[0])
    rates = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
    with tpu.torch_checkpoints(net, optimizer, more={"rates": rates}, data=Draws(tpu.info().host)) as checkpoints:
        start = checkpoints.restore(part)
        restored = checkpoints.restored
    steps = [state["step"].item() for state in optimizer.state.values()]
    return {
        "start": start,
        "restored": restored and restored.step,
        "first is as given": digest(net[0]) == before,
        "digest": digest(net),
        "steps": max(steps, default=0),
    }


class Idle(nn.Module):
    """Has a part that no step uses."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(FEATURES, 1), nn.Linear(FEATURES, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        used: torch.Tensor = self.used(rows)
        return used


class Notes:
    """Has in its state whatever a dict may hold, and more with each step."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"by step": {}, "pair": (torch.zeros(1), 0), "shadow": {"w": torch.zeros(2)}}

    def step(self) -> None:
        done = len(self.state["by step"])
        self.state["by step"][done] = 0.5 * done
        self.state["pair"] = (self.state["pair"][0] + 1, done)
        self.state["shadow"]["w"] += done

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


def odd_ones(directory: str) -> dict[str, Any]:
    """Each program interrupted after three steps of five, beside the one that was not."""
    tpu.join("torch")
    ways: dict[str, Any] = {
        "idle": lambda net: (torch.optim.Adam(net.parameters(), lr=0.05), {}),
        "milestones": lambda net: _with(net, lambda each: torch.optim.lr_scheduler.MultiStepLR(each, [1, 3], 0.1)),
        "notes": lambda net: _with(net, lambda _: Notes()),
    }
    return {name: [_steps(way, None, 5), _steps(way, f"{directory}/{name}", 3, 5)] for name, way in ways.items()}


def _with(net: nn.Module, more: Any) -> tuple[Any, dict[str, Any]]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    return optimizer, {"more": more(optimizer)}


def _steps(way: Any, directory: str | None, *ends: int) -> Any:
    """What the last of some programs, which follow on each other, has come to."""
    for end in ends:
        torch.manual_seed(3)
        net = Idle()
        optimizer, more = way(net)
        with tpu.torch_checkpoints(net, optimizer, more=more, directory=directory or "none") as checkpoints:
            start = checkpoints.restore() if directory else 0
            for step in range(start, end):
                optimizer.zero_grad()
                net(torch.full((1, FEATURES), 1.0 + step)).sum().backward()
                optimizer.step()
                for each in more.values():
                    each.step()
                if directory:
                    checkpoints.save(step)
    kept = {name: str(each.state_dict()) for name, each in more.items()}
    return [digest(net), len(optimizer.state), kept]


def strange_optimizer() -> None:
    tpu.join("torch")
    tpu.torch_checkpoints(network(), torch.optim.SGD(network().parameters(), lr=0.1))


def as_launched() -> dict[str, Any]:
    """Outside a job, as torchrun or Kubeflow starts it; a second join is the first one."""
    tpu.join("torch")
    tpu.join("torch")
    sizes = torch.tensor([1])
    torch.distributed.all_reduce(sizes)
    sampler = DistributedSampler(range(8), shuffle=True)  # type: ignore[var-annotated]
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    return {
        "rank": torch.distributed.get_rank(),
        "sum": int(sizes),
        "backend": torch.distributed.get_backend(),
        "epochs": epochs,
    }


def alone_before_join() -> None:
    with tpu.torch_checkpoints(network()):
        raise AssertionError("it has not met the others")


def guarded(word: str, steps: int = 6) -> dict[str, Any]:
    """Steps that all hosts make together, but for what `word` says that host 1 does otherwise in the fourth one."""
    tpu.join("torch")
    is_odd = tpu.info().host == 1
    weights = torch.nn.Parameter(torch.ones(3))
    for step in range(steps):
        if (word, is_odd, step) == ("skips", True, 3):
            continue  # the others wait for this host in their last step
        if (word, is_odd, step) == ("differs", True, 3):
            weights.data *= 2
        tpu.agree(step, weights=weights, large=torch.zeros(2000), batch=32)
        total = weights.detach().clone()
        torch.distributed.all_reduce(total)
        weights.data += 0.1 * total
        tpu.report(step, loss=total.sum())
    if word == "differs" or (word, is_odd) == ("misses", True):
        time.sleep(4 if word == "misses" else 60)  # which is more than the others wait, or need to find out
        return {}
    try:
        tpu.barrier("trained", timeout=1 if word == "misses" else 60)
    except tpu.HostsMissing as exc:
        return {"missing": list(exc.hosts), "message": str(exc)}
    tpu.leader_print("printed once")
    return {"weights": weights.tolist()}
