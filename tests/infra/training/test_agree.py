"""What is compared of a value, and that every host hears of a difference."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package

from on_a_board import Words  # noqa: E402

import prefect_tpu as tpu  # noqa: E402
from prefect_tpu.infra.errors import UsageError  # noqa: E402
from prefect_tpu.infra.training import trail  # noqa: E402
from prefect_tpu.infra.training.agree import TRAILS, Agreement  # noqa: E402


def two() -> tuple[Words, Agreement, Agreement]:
    words = Words()
    return words, Agreement(words.of(0, 2), period=0.0), Agreement(words.of(1, 2), period=0.0)


def said(words: Words, step: int = 0) -> dict[str, str]:
    """By the leader."""
    marks = trail.read(words.told[f"{TRAILS}/0"])
    return dict(next(mark for mark in marks if mark.step == step).values)


def test_every_host_hears_the_leaders_verdict() -> None:
    _, leader, other = two()
    leader.add(0, {"lr": 0.1})
    other.add(0, {"lr": 0.2})
    assert other.look() is None, "the leader has not looked"
    found = leader.look()
    assert found is not None and found.said == "host 1 said lr=0.2 at step 0, and host 0 lr=0.1"
    assert other.look() == found and leader.look() == found


def test_equal_values_are_equal_whatever_holds_them() -> None:
    words, leader, other = two()
    for host in (leader, other):
        host.add(0, {"nan": float("nan"), "array": np.arange(3), "rows": (1, [2]), "none": None})
    assert leader.look() is None and other.look() is None and leader.look() is None
    texts = said(words)
    assert texts["rows"] == "[1, [2]]" and texts["nan"] == "nan" and texts["array"].startswith("int64[3] #")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.5), "0.5"),
        (np.float32(0.5), "0.5"),
        (np.asarray(2), "2"),
        (np.True_, "True"),
        (np.array(["a", "b"], object), '["a", "b"]'),  # its bytes are addresses, which differ
        ([np.int32(1), {"x": np.arange(2)}], '[1, {"x": [0, 1]}]'),
    ],
)
def test_what_numpy_holds_is_said_as_what_it_is(value: Any, text: str) -> None:
    words, leader, _ = two()
    leader.add(0, {"value": value})
    assert leader.look() is None and said(words) == {"value": text}


def test_keys_of_jax_are_compared_by_their_numbers() -> None:
    _, leader, other = two()
    for number, host in enumerate((leader, other)):
        host.add(0, {"key": jax.random.key(number)})
        host.add(1, {})
    other.look()
    found = leader.look()
    assert found is not None and found.said.startswith("host 1 said key=#")


def test_of_a_long_text_a_part_is_said() -> None:
    words, leader, _ = two()
    leader.add(0, {"long": "x" * 1000})
    assert leader.look() is None
    texts = said(words)
    assert len(texts["long"]) < 60


class Loss:
    """A number that is computed later, as JAX's are; looking at it too early or too late ends Python there."""

    dtype, shape, size, is_fully_replicated, is_fully_addressable = np.dtype("float32"), (), 1, True, False

    def __init__(self, number: float, *, ready: bool = True) -> None:
        self.number, self.ready, self.deleted = number, ready, False

    def is_ready(self) -> bool:
        assert not self.deleted
        return self.ready

    def is_deleted(self) -> bool:
        return self.deleted

    def __array__(self, *_: Any, **__: Any) -> Any:
        assert self.ready and not self.deleted
        return np.asarray(self.number, np.float32)


def test_an_array_of_jax_is_compared_when_it_is_computed() -> None:
    _, leader, other = two()
    mine = Loss(1.0, ready=False)
    leader.add(4, {"loss": mine})
    other.add(4, {"loss": Loss(2.0)})
    other.look()
    assert leader.look() is None
    mine.ready = True
    leader.add(5, {})
    found = leader.look()
    assert found is not None and found.said == "host 1 said loss=2.0 at step 4, and host 0 loss=1.0"


def test_a_donated_array_is_not_looked_at() -> None:
    words, leader, _ = two()
    loss = Loss(1.0, ready=False)
    leader.add(0, {"loss": loss})
    loss.deleted = True
    leader.add(1, {})
    assert leader.look() is None and said(words) == {"loss": "float32[]"}


def test_what_cannot_be_compared_is_refused() -> None:
    _, leader, _ = two()
    with pytest.raises(UsageError, match="cannot compare 'model', a object: give numbers, text, arrays"):
        leader.add(0, {"model": object()})


def test_hosts_that_have_not_met_are_told_to_join(inside_job: Callable[..., Any]) -> None:
    inside_job(hosts=2)
    for call in (lambda: tpu.agree(0), lambda: tpu.barrier("begin")):
        with pytest.raises(UsageError, match=r"call prefect_tpu.join\(\) first"):
            call()


def test_alone_there_is_nobody_to_agree_with(inside_job: Callable[..., Any]) -> None:
    inside_job()
    tpu.agree(0, anything=object())
    tpu.barrier("begin")
