"""Where is `model.fit` in its data, and with which chances does it go on? Stored with a step, as a position is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra.training import chances
from prefect_tpu.infra.training.data_position import DataIterator, go_to, own_position


@dataclass(slots=True, kw_only=True)
class Place:
    """How much of an epoch is done, and what it has come to so far.

    batches: of the epoch, that are done.
    chances: the state of the generators that Keras shuffles with, when the epoch began.
    logs: what Keras told of the last batch.
    metrics: what the epoch's metrics have summed up, as arrays.
    """

    epoch: int = 0
    batches: int = 0
    chances: dict[str, Any] = field(default_factory=dict)
    logs: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Any] = ()

    def to_json(self) -> dict[str, Any]:
        import numpy as np

        return {
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
        self.data = data
        self.now = Place()
        self.saved: Place | None = None
        self._saved_data: Any = None

    def get_state(self) -> dict[str, Any]:
        return {**self.now.to_json(), "data": None if self.data is None else own_position(self.data)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._saved_data = state["data"]
        self.saved = Place(**{name: value for name, value in state.items() if name != "data"})

    def begin(self, epoch: int) -> Place:
        """From where this epoch goes on. Call it before the epoch draws: what it shuffles with is put back here."""
        saved, self.saved = self.saved, None
        if saved is None or saved.epoch != epoch:
            self.now = Place(epoch=epoch, chances=chances.taken())
            return self.now
        chances.put_back(saved.chances)
        if self.data is not None:
            go_to(self.data, self._saved_data)
        self.now = saved
        return saved

    def end(self, epoch: int) -> None:
        """All before this epoch is done."""
        self.now = Place(epoch=epoch, chances=chances.taken())
