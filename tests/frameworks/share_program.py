"""What test_shares.py runs where PyTorch, Hugging Face's data sets and pandas are: one host's shares, as JSON."""

from __future__ import annotations

import json
import sys

import datasets
import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import prefect_tpu as tpu

ROWS = 10


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(ROWS))


def kinds():
    tensor = torch.arange(ROWS)
    table = datasets.Dataset.from_dict({"row": list(range(ROWS)), "text": [str(i) for i in range(ROWS)]})
    return tensor, table, TensorDataset(tensor, tensor * 2), pd.DataFrame({"row": np.arange(ROWS)})


def shared(seed):
    """(the rows that each kind of data gives this host, whether each came back as what it was)"""
    tensor, table, torch_set, frame = tpu.shard(*kinds(), seed=seed)
    rows = [tensor.tolist(), table["row"][:], [int(torch_set[i][0]) for i in range(len(torch_set))], list(frame["row"])]
    types = [
        isinstance(tensor, torch.Tensor),
        isinstance(table, datasets.Dataset) and table["text"][:] == [str(row) for row in rows[1]],
        isinstance(torch_set, Subset),
        isinstance(frame, pd.DataFrame),
    ]
    return rows, types


def drawn():
    """A batch of each kind, stacked as its library stacks one."""
    tensor, table, torch_set, frame = next(tpu.batches(*kinds(), size=8, seed=3))
    first, second = torch_set
    is_whole = second.tolist() == [2 * row for row in first.tolist()] and table["text"] == [
        str(i) for i in table["row"]
    ]
    formatted = next(tpu.batches(kinds()[1].with_format("torch"), size=8, seed=3))["row"]
    return [tensor.tolist(), table["row"], first.tolist(), list(frame["row"]), formatted.tolist()], is_whole


def refused():
    stream = datasets.Dataset.from_dict({"row": [1, 2]}).to_iterable_dataset()
    messages = []
    for data in (stream, Stream(), DataLoader(TensorDataset(torch.arange(4)))):
        try:
            tpu.shard(data)
        except tpu.UsageError as exc:
            messages.append(str(exc))
    return messages


def position():
    """A stream of Hugging Face goes on where it was."""
    from prefect_tpu.infra.training import data_position

    stream, other = (kinds()[1].to_iterable_dataset() for _ in range(2))
    rows = iter(stream)
    next(rows), next(rows)
    data_position.set_position(other, data_position.positions(stream), 0, 1)
    return next(iter(other))["row"]


if __name__ == "__main__":
    views = torch.arange(ROWS)
    share = tpu.shard(views)
    found = {
        "in order": shared(None),
        "shuffled": shared(3),
        "batch": drawn(),
        "refused": refused(),
        "position": position(),
        "is a view": share.untyped_storage().data_ptr() == views.untyped_storage().data_ptr(),
    }
    sys.stdout.write(f"{json.dumps(found, default=int)}\n")
