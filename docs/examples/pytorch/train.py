"""Handwritten digits in PyTorch: DistributedDataParallel on every host of a slice.

It runs as it is on a laptop (`python docs/examples/pytorch/train.py`), and on slices as README.md beside it says.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import prefect_tpu as tpu

TRAINING_ROWS = 1408  # the other 389 of the 1797 are for the test
BATCH = 128  # of all hosts together


def main(steps: int = 200, seed: int = 0, step_seconds: float = 0.0) -> dict[str, float | int | str]:
    """Train for `steps` steps; `step_seconds` makes each last longer, to have time to look at it."""
    tpu.join("torch")
    host, hosts = torch.distributed.get_rank(), torch.distributed.get_world_size()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = read_digits(device)
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10)).to(device)
    # Else it lays its gradients out anew after its first step, and sums them in another order after each restart.
    model = DistributedDataParallel(network, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    torch.manual_seed(seed * hosts + host)  # each host drops others
    with tpu.torch_checkpoints(model, optimizer, more={"rates": rates}) as checkpoints:
        for step in range(checkpoints.restore(), steps):
            pictures, digits = (part[rows_of(step, seed)[host::hosts]] for part in train)
            loss = nn.functional.cross_entropy(model(pictures), digits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rates.step()
            time.sleep(step_seconds)
            tpu.report(step, loss=loss)
            checkpoints.save(step)

    network.eval()
    with torch.no_grad():
        right = network(test[0]).argmax(1) == test[1]
    return {"accuracy": float(right.float().mean()), "steps": steps, "digest": digest(network)}


def rows_of(step: int, seed: int) -> np.ndarray:
    """The batch of a step, which its number decides: nothing of the data's position need be saved."""
    epoch, batch = divmod(step, TRAINING_ROWS // BATCH)
    order = np.random.default_rng([seed, epoch]).permutation(TRAINING_ROWS)
    return order[batch * BATCH : (batch + 1) * BATCH]


def read_digits(device):
    """((pictures, digits) to train with, (pictures, digits) to test with)"""
    path = tpu.info().data.get("digits", Path(__file__).parents[1] / "data" / "digits.csv.gz")
    if not path.exists():  # only code travels by itself
        raise SystemExit("The digits are not here: stage them with --data docs/examples/data/digits.csv.gz")
    table = np.random.default_rng(0).permutation(np.loadtxt(path, delimiter=",", dtype=np.int64))
    pictures = torch.tensor(table[:, :64] / 16, dtype=torch.float32, device=device)
    digits = torch.tensor(table[:, 64], device=device)
    return (pictures[:TRAINING_ROWS], digits[:TRAINING_ROWS]), (pictures[TRAINING_ROWS:], digits[TRAINING_ROWS:])


def digest(network):
    """Two runs that agree in it agree in every bit of the model."""
    parts = (value.cpu().numpy().tobytes() for value in network.state_dict().values())
    return hashlib.sha256(b"".join(parts)).hexdigest()


if __name__ == "__main__":
    print(main())
