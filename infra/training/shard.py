"""Which rows are this host's? An equal, aligned share of every array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.info import info

T = TypeVar("T")


@overload
def shard(array: T, /) -> T: ...
@overload
def shard(first: T, second: T, /, *more: T) -> tuple[T, ...]: ...
def shard(*arrays: Any) -> Any:
    """This host's share of each array along its first axis, as views where the type allows.

    Host i gets rows i·n/hosts to (i+1)·n/hosts of each, so that rows that belong
    together stay together. One array comes back alone, several as a tuple.

    Raises:
        UsageError: the arrays differ in length, or their length does not divide by the number of hosts.
    """
    length = _common_length(arrays)
    here = info()
    if length % here.hosts:
        raise UsageError(
            f"{length} rows cannot be shared equally by {here.hosts} hosts: {length % here.hosts} would be left over."
            f" Use {length - length % here.hosts} rows, or pad to {length + here.hosts - length % here.hosts}."
        )
    share = length // here.hosts
    views = tuple(array[here.host * share : (here.host + 1) * share] for array in arrays)
    return views[0] if len(views) == 1 else views


def _common_length(arrays: tuple[Any, ...]) -> int:
    lengths = [_length(array) for array in arrays]
    if not lengths:
        raise UsageError("shard() was given no array: give it at least one.")
    if len(set(lengths)) > 1:
        raise UsageError(f"The arrays to share differ in length: {', '.join(map(str, lengths))}. Make them equal.")
    return lengths[0]


def _length(array: Any) -> int:
    try:
        if isinstance(array, Mapping):
            raise TypeError
        return len(array)
    except TypeError:
        raise UsageError(
            f"A {type(array).__name__} has no rows to share: give shard() arrays or lists, one per argument."
        ) from None
