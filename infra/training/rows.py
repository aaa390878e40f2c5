"""What are the rows of some data, and how are a few of them taken? Each kind by its own means, none loaded by us."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.shares import Where

_ENDLESS = sys.maxsize  # the length of Grain's data that repeats


class Picked:
    """Some rows of data that has no slices of its own, read when they are asked for."""

    def __init__(self, rows: Any, where: Where) -> None:
        self._rows, self._where = rows, where

    def __len__(self) -> int:
        return len(self._where)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[int(self._where[place])]


def count(data: tuple[Any, ...], asked: str) -> int:
    """How many rows each of these has. Raises `UsageError` where one has none, or they differ."""
    named = [pair for i, each in enumerate(data) for pair in _columns(each, f"argument {i + 1}", asked)]
    if not named:
        raise UsageError(f"{asked}() was given no array: give it at least one.")
    lengths = [(name, _length(each, asked)) for name, each in named]
    if len({length for _, length in lengths}) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths)
        raise UsageError(f"What {asked}() was given differs in its number of rows: {told}. Make them equal.")
    return lengths[0][1]


def pick(data: Any, where: Where) -> Any:
    """These rows, as the type that came in; a view where the type has views and the rows lie side by side."""
    if isinstance(data, Mapping):
        return _like(data, {name: pick(column, where) for name, column in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(pick(column, where) for column in data))
    if _is(data, "datasets.arrow_dataset", "Dataset"):
        return data.select(where)
    if _is(data, "grain", "MapDataset"):
        return data[_slice(where)] if isinstance(where, range) else _grain().source(Picked(data, where))
    if _is(data, "torch.utils.data", "Dataset"):
        return sys.modules["torch.utils.data"].Subset(data, where)
    if _is(data, "h5py", "Dataset") and not isinstance(where, range):
        return _in_any_order(data, where)
    if hasattr(data, "iloc"):  # a table of pandas
        return data.iloc[_slice(where) if isinstance(where, range) else where]
    if isinstance(where, range) and isinstance(data, list | tuple | range):
        return data[_slice(where)]
    if isinstance(data, list | tuple | range):
        return (tuple if isinstance(data, tuple) else list)(data[i] for i in where)
    if hasattr(data, "shape"):
        return data[_slice(where) if isinstance(where, range) else where]
    return Picked(data, where)


def read(data: Any, where: Where) -> Any:
    """What is in these rows: of a data set its columns or elements, stacked as it stacks a batch; else as `pick`."""
    if isinstance(data, Mapping):
        return _like(data, {name: read(column, where) for name, column in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(read(column, where) for column in data))
    if _is(data, "datasets.arrow_dataset", "Dataset"):
        return data[where]
    if _is(data, "grain", "MapDataset"):
        return pick(data, where).batch(len(where))[0]
    if _is(data, "torch.utils.data", "Dataset"):
        return sys.modules["torch.utils.data"].default_collate([data[int(i)] for i in where])
    picked = pick(data, where)
    return [picked[i] for i in range(len(picked))] if isinstance(picked, Picked) else picked


def _in_any_order(data: Any, where: Where) -> Any:
    """Of a file that is read forwards, each row once."""
    import numpy as np

    forwards, back = np.unique(where, return_inverse=True)
    return data[forwards][back]


def _columns(data: Any, name: str, asked: str) -> list[tuple[str, Any]]:
    """(name, rows) of each array in it: a dict and a named tuple are columns, anything else is rows."""
    if isinstance(data, Mapping):
        pairs = [(f"{name}[{key!r}]", column) for key, column in data.items()]
    elif _is_named_tuple(data):
        pairs = [(f"{name}.{key}", column) for key, column in zip(data._fields, data, strict=True)]
    else:
        return [(name, data)]
    if not pairs:
        raise UsageError(f"{name} of {asked}() is an empty {type(data).__name__}: give it columns of rows.")
    return [found for key, column in pairs for found in _columns(column, key, asked)]


def _length(data: Any, asked: str) -> int:
    try:
        if isinstance(data, str | bytes | bytearray | memoryview) or not hasattr(data, "__getitem__"):
            raise TypeError
        if getattr(data, "is_fully_addressable", True) is False:
            raise UsageError(
                f"{asked}() was given a jax.Array that lies over all hosts already: each host has its part of it."
            )
        length = len(data)
    except TypeError:
        raise UsageError(f"A {type(data).__name__} has no rows to share: {_instead(data, asked)}") from None
    if length >= _ENDLESS:
        raise UsageError(f"A {type(data).__name__} that repeats has no last row: call {asked}() before .repeat().")
    return length


def _instead(data: Any, asked: str) -> str:
    if _is(data, "grain", "IterDataset"):
        return f"give {asked}() the MapDataset that it is made of, and .to_iter_dataset() what comes back."
    if _is(data, "grain", "DataLoader"):
        return f"give {asked}() its data source, or its sampler shard_options=grain.sharding.ShardByJaxProcess()."
    if _is(data, "datasets.iterable_dataset", "IterableDataset"):
        return "use datasets.distributed.split_dataset_by_node, which takes what is streamed."
    if _is(data, "torch.utils.data", "DataLoader"):
        return f"give {asked}() the Dataset that it loads."
    if _is(data, "torch.utils.data", "IterableDataset"):
        return "let its __iter__ skip what is another host's, by prefect_tpu.info().host and .hosts."
    return f"give {asked}() arrays, lists or data sets, one per argument."


def _is(data: Any, module: str, name: str) -> bool:
    """Whether it is of a class that its library has loaded already, else it cannot be."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(data, kind)


def _grain() -> Any:
    return sys.modules["grain"].MapDataset


def _is_named_tuple(data: Any) -> bool:
    return isinstance(data, tuple) and hasattr(data, "_fields")


def _like(data: Mapping[Any, Any], columns: dict[Any, Any]) -> Any:
    if isinstance(data, defaultdict):
        return type(data)(data.default_factory, columns)
    return columns if type(data) is dict else type(data)(columns)  # type: ignore[call-arg]


def _slice(where: range) -> slice:
    return slice(where.start, where.stop)
