"""Which rows are this host's? An equal, aligned share of all that is given."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, TypeVar, overload

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import rows, shares
from prefect_tpu.infra.training.info import info
from prefect_tpu.infra.training.shares import Uneven

T = TypeVar("T")
logger = logging.getLogger(__name__)


@overload
def shard(data: T, /, *, seed: int | None = None, epoch: int = 0, uneven: Uneven = "drop") -> T: ...
@overload
def shard(
    first: T, second: T, /, *more: T, seed: int | None = None, epoch: int = 0, uneven: Uneven = "drop"
) -> tuple[T, ...]: ...
def shard(*arrays: Any, seed: int | None = None, epoch: int = 0, uneven: Uneven = "drop") -> Any:
    """This host's share of each array along its first axis, as its own type, as a view where that type has views.

    Host i gets rows i·n/hosts to (i+1)·n/hosts of each, in the order that the seed says, so that rows that belong
    together stay together. One array comes back alone, several as a tuple. Shares are equal on all hosts.

    Args:
        *arrays: lists, tuples, arrays and tensors; tables of pandas; data sets of Grain (`MapDataset`), Hugging Face
            (`datasets.Dataset`), PyTorch and h5py; whatever else has a length and rows by number; dicts of these, by
            column.
        seed: shuffle all rows first, alike on all hosts; None leaves them as they are.
        epoch: the number of the pass over the rows: each is shuffled in another way.
        uneven: what to do with rows that are too few to give each host one more: `drop` them, `pad` them with rows
            from the beginning so that each host has one more, or `refuse` to share.

    Raises:
        UsageError: the arrays differ in length or have none, there are fewer rows than hosts, or they do not divide
            and that is to be refused.
    """
    shares.check_uneven(uneven, "shard")
    seed, epoch = _whole(seed, epoch)
    total, here = rows.count(arrays, "shard"), info()
    where = shares.share(shares.order(total, seed, epoch), here.host, here.hosts, uneven)
    if seed is None and uneven == "drop" and total % here.hosts:
        _tell_dropped(total, here.hosts)
    parts = tuple(rows.pick(array, where) for array in arrays)
    return parts[0] if len(parts) == 1 else parts


def _whole(seed: int | None, epoch: int) -> tuple[int | None, int]:
    epoch = shares.whole_number(epoch, "epoch", "shard", 0)
    if seed is not None:
        return shares.whole_number(seed, "seed", "shard", 0), epoch
    if epoch:
        raise UsageError(f"shard(epoch={epoch}) has no seed, and without one rows stay as they are: give seed=0 too.")
    return None, epoch


@cache  # once: a program may share every batch
def _tell_dropped(total: int, hosts: int) -> None:
    logger.warning("The last %s of %s rows are no host's: %s hosts have equal shares.", total % hosts, total, hosts)
