"""A place in an epoch is told as JSON, and what Keras shuffles with draws again from there."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from prefect_tpu.infra.training.keras_place import Places


class Numbers:
    def __init__(self) -> None:
        self.drawn = 0

    def get_state(self) -> Any:
        return {"drawn": self.drawn}

    def set_state(self, state: Any) -> None:
        self.drawn = state["drawn"]


def draw() -> tuple[list[int], float, float]:
    return np.random.permutation(20).tolist(), float(np.random.normal()), random.random()


def test_an_epoch_goes_on_with_the_order_that_it_had() -> None:
    numbers = Numbers()
    places = Places(numbers)
    np.random.seed(1)
    random.seed(1)
    np.random.normal()  # keeps a second number back, which is part of the state
    place = places.begin(2)
    order = draw()
    place.batches, place.logs, place.metrics = 7, {"loss": np.float32(0.1)}, [np.asarray([0.1, 3], np.float32)]
    numbers.drawn = 5
    stored = json.loads(json.dumps(places.get_state()))

    draw()
    other = Places(Numbers())
    other.set_state(stored)
    assert other.saved is not None and other.saved.epoch == 2
    found = other.begin(2)
    assert draw() == order
    assert (found.batches, found.logs) == (7, {"loss": float(np.float32(0.1))})
    assert np.array_equal(np.asarray(found.metrics[0], np.float32), place.metrics[0])
    assert other.data is not None and other.data.get_state() == {"drawn": 5}
    assert json.dumps(other.get_state()) == json.dumps(stored)


def test_an_epoch_that_was_not_saved_begins_with_its_first_batch() -> None:
    places = Places(None)
    places.begin(0).batches = 3
    other = Places(None)
    other.set_state(places.get_state())
    assert other.begin(4).batches == 0
    assert other.begin(0).batches == 0  # only the first epoch after a restore goes on


def test_between_two_epochs_nothing_of_the_next_is_done() -> None:
    places = Places(None)
    places.begin(0).batches = 3
    places.end(1)
    other = Places(None)
    other.set_state(places.get_state())
    order = draw()
    found = other.begin(1)
    assert (found.epoch, found.batches) == (1, 0) and draw() == order
