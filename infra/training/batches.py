"""Which rows does a step train on? Global batches, the same on any number of hosts; of each, this host's share."""

from __future__ import annotations

import logging
import operator
from collections.abc import Mapping
from functools import cache
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import rows, shares
from prefect_tpu.infra.training.info import info
from prefect_tpu.infra.training.shares import Uneven, Where

logger = logging.getLogger(__name__)


def batches(
    *arrays: Any, size: int, seed: int | None = 0, epochs: int | None = None, uneven: Uneven = "drop"
) -> Batches:
    """An iterator over this host's share of each batch of all hosts, shuffled anew in each epoch.

    The seed alone decides which rows are in a batch: a run that goes on on another number of hosts trains on the same
    ones. Give it to `checkpoints(data=…)`, and a restored run draws the next batch.

    Args:
        *arrays: what `shard` takes. Of data sets comes what is in the rows, stacked as the library stacks a batch.
        size: rows of a batch on all hosts together.
        seed: None keeps the rows in their order.
        epochs: how often to go through all rows; None for ever.
        uneven: what to do with rows that are too few for the last batch of an epoch: `drop` them, `pad` it with rows
            from the epoch's beginning, or `refuse`.

    Raises:
        UsageError: the arrays differ in length, `size` does not divide by the number of hosts, or the rows make no
            batch, or none that is whole and that is to be refused.
    """
    return Batches(arrays, size=size, seed=seed, epochs=epochs, uneven=uneven)


class Batches:
    """See `batches`.

    rows: of one epoch.
    per_epoch: batches of one epoch.
    epoch: the number of the epoch that the next batch is of, from 0.
    """

    def __init__(
        self, arrays: tuple[Any, ...], *, size: int, seed: int | None, epochs: int | None, uneven: Uneven
    ) -> None:
        shares.check_uneven(uneven, "batches")
        self._size = shares.whole_number(size, "size", "batches", 1)
        self._seed = seed if seed is None else shares.whole_number(seed, "seed", "batches", 0)
        self._epochs = epochs if epochs is None else shares.whole_number(epochs, "epochs", "batches", 0)
        self._arrays, self._uneven = arrays, uneven
        self.rows = rows.count(arrays, "batches")
        self.per_epoch = _per_epoch(self.rows, self._size, uneven)
        if seed is None and uneven == "drop" and self.rows % self._size:
            _tell_dropped(self.rows, self._size)
        here = info()
        self._host, self._each = here.host, _each(self._size, here.hosts)
        self._epoch = self._done = 0  # rows of this epoch that were drawn
        self._order: tuple[int, Where] = (-1, range(0))

    @property
    def epoch(self) -> int:
        return self._epoch + (not self._has_more)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        epoch, done = (self._epoch, self._done) if self._has_more else (self._epoch + 1, 0)
        if self._epochs is not None and epoch >= self._epochs:
            raise StopIteration
        self._check_rows()
        where = shares.cut(self._ordered(epoch), done + self._host * self._each, self._each)
        parts = tuple(rows.read(array, where) for array in self._arrays)
        self._epoch, self._done = epoch, done + self._size
        return parts[0] if len(parts) == 1 else parts

    def get_state(self) -> dict[str, int | None]:
        """Where it is, for a checkpoint: the same on all hosts."""
        return {"epoch": self._epoch, "done": self._done, "rows": self.rows, "seed": self._seed}

    def set_state(self, state: Mapping[str, int | None]) -> None:
        """Go on where it was; batches may be of another size by now.

        Raises:
            UsageError: the rows or their order are others.
        """
        mine = {"rows": self.rows, "seed": self._seed}
        try:
            epoch, done = (operator.index(state[name]) for name in ("epoch", "done"))  # type: ignore[arg-type]
            stored = {name: state[name] for name in mine}
            if epoch < 0 or done < 0:
                raise KeyError
        except (KeyError, TypeError) as exc:
            raise UsageError(f"No position of prefect_tpu.batches is {state!r}: another iterator's was saved.") from exc
        wrong = [f"{name}={stored[name]} then, {value} now" for name, value in mine.items() if stored[name] != value]
        if wrong:
            raise UsageError(
                f"The position that was saved is one in other batches: {', '.join(wrong)}. Give the rows and the seed"
                " of then, or start under another name."
            )
        self._epoch, self._done = epoch, done

    def _check_rows(self) -> None:
        """A list that grows or shrinks would have each host draw from other rows, or from fewer."""
        if (found := rows.count(self._arrays, "batches")) != self.rows:
            raise UsageError(
                f"What batches() was given has {found} rows by now, and had {self.rows}: give it data that stays as it"
                " is, and make new batches of what changes."
            )

    @property
    def _has_more(self) -> bool:
        """Whether there is one more batch in this epoch."""
        left = self.rows - self._done
        return left > 0 if self._uneven == "pad" else left >= self._size

    def _ordered(self, epoch: int) -> Where:
        if self._order[0] != epoch:
            self._order = (epoch, shares.order(self.rows, self._seed, epoch))
        return self._order[1]


def _per_epoch(total: int, size: int, uneven: Uneven) -> int:
    if uneven == "refuse" and total % size:
        raise UsageError(
            f"{total} rows make no whole number of batches of {size}: {total % size} would be left over. Use another"
            ' size, or say uneven="drop" or uneven="pad".'
        )
    if total == 0 or (uneven != "pad" and total < size):
        raise UsageError(f'{total} rows make no batch of {size}: use a smaller size, or more rows, or uneven="pad".')
    return -(-total // size) if uneven == "pad" else total // size


@cache  # once: a program may begin anew with each epoch
def _tell_dropped(total: int, size: int) -> None:
    """Without a seed they are the same rows in each epoch."""
    logger.warning("The last %s of %s rows are in no batch: batches have %s rows.", total % size, total, size)


def _each(size: int, hosts: int) -> int:
    if size % hosts:
        raise UsageError(
            f"A batch of {size} rows cannot be shared equally by {hosts} hosts: use"
            f" {' or '.join(str(near) for near in (size - size % hosts, size + hosts - size % hosts) if near)}."
        )
    return size // hosts
