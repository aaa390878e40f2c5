"""Where is `model.fit` in its data, and with which chances does it go on? Stored with a step, as a position is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra.training import chances
from prefect_tpu.infra.training.data_position import DataIterator, check, go_to, own_position


@dataclass(slots=True, kw_only=True)
class Place:
    """How much of an epoch is done, and what it has come to so far.

    fit: which call of `fit` it belongs to, as this program counts them from 0.
    batches: of the epoch, that are done.
    chances: the state of the generators that Keras shuffles with, when the epoch began.
    logs: what Keras told of the last batch.
    metrics: what the epoch's metrics have summed up, as arrays.
    """

    fit: int = 0
    epoch: int = 0
    batches: int = 0
    chances: dict[str, Any] = field(default_factory=dict)
    logs: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Any] = ()

    def to_json(self) -> dict[str, Any]:
        import numpy as np

        return {
            "fit": self.fit,
            "epoch": self.epoch,
            "batches": self.batches,
            "chances": self.chances,
            "logs": {name: float(value) for name, value in self.logs.items()},
            "metrics": [np.asarray(value).tolist() for value in self.metrics],
        }


class Places:
    """What `checkpoints` takes for an iterator: it is asked for the place, and told the one that was saved.

    data: a position of the program's own, saved and put back with it.
    """

    def __init__(self, data: DataIterator | None) -> None:
        """Raises `UsageError` where the program's own has no position: now, rather than at the first save."""
        check(data)
        self.data = data
        self.now = Place()
        self.saved: Place | None = None
        self._saved_data: Any = None
        self._fit = -1

    def get_state(self) -> dict[str, Any]:
        return {**self.now.to_json(), "data": None if self.data is None else own_position(self.data)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._saved_data = state["data"]
        self.saved = Place(**{name: value for name, value in state.items() if name != "data"})

    def begin_fit(self, epochs: int) -> int | None:
        """The epoch with which the next `fit` goes on, `epochs` where nothing of it is left; None where it begins."""
        self._fit += 1
        if self.saved is None or self.saved.fit < self._fit:
            self._go_past()
            return None
        return epochs if self._fit < self.saved.fit else min(self.saved.epoch, epochs)

    def end_fit(self, epochs: int) -> None:
        """All epochs of this `fit` are done, now or before."""
        if self.saved is None:
            self.end(max(self.now.epoch, epochs))  # also where Keras stopped early
        elif self.saved.fit == self._fit:
            self._go_past()

    def begin(self, epoch: int) -> Place:
        """From where this epoch goes on. Call it before the epoch draws: what it shuffles with is put back here."""
        saved, self.saved = self.saved, None
        if saved is None or saved.epoch != epoch:
            self.now = Place(fit=self._fit, epoch=epoch, chances=chances.taken())
            return self.now
        return self._back_to(saved)

    def end(self, epoch: int) -> None:
        """All before this epoch is done."""
        self.now = Place(fit=self._fit, epoch=epoch, chances=chances.taken())

    def _go_past(self) -> None:
        """What was saved is the end of a `fit`: the program goes on from there."""
        saved, self.saved = self.saved, None
        if saved is not None:
            self._back_to(saved)

    def _back_to(self, saved: Place) -> Place:
        chances.put_back(saved.chances)
        if self.data is not None:
            go_to(self.data, self._saved_data)
        self.now = saved
        return saved
