"""What cannot be pickled is found, by the name under which its owner knows it."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from prefect_tpu.infra.culprits import culprit, kind, used_by

LOCK = threading.Lock()


class Holder:
    def __init__(self, held: Any) -> None:
        self.fine = 1
        self.held = held

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("empty", "held")

    def __init__(self, held: Any) -> None:
        self.held = held


def reads_a_global() -> Any:
    return [LOCK for _ in "a"]


def calling_another() -> Any:
    def inner() -> Any:
        return [LOCK for _ in "a"]

    def outer() -> Any:
        return inner()

    return outer


def with_default(a: int, b: Any = LOCK) -> Any:
    return a, b


def closing_over(value: Any) -> Any:
    def inner() -> Any:
        return value

    return inner


def of_itself() -> list[Any]:
    found: list[Any] = [1]
    found += [found, LOCK]
    return found


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (LOCK, "it"),
        ({"a": [1, {"b": LOCK}]}, "it['a'][1]['b']"),
        ((1, (2, LOCK)), "it[1][1]"),
        (Holder({"x": LOCK}), "it.held['x']"),
        (Slotted(LOCK), "it.held"),
        (of_itself(), "it[2]"),
        (closing_over([LOCK]), "value[0]"),
        (partial(closing_over, LOCK), "argument 1"),
        (calling_another(), "LOCK"),
        (Holder(LOCK).method, "self.held"),
        ((n for n in "a"), "it"),
    ],
)
def test_the_innermost_part_is_named(part: object, path: str) -> None:
    found = culprit(object(), {"fine": [1, "a"], "it": part})
    assert found is not None
    assert (found.part, found.path) == ("it", path)
    assert kind(found.value) in ("_thread.lock", "generator")


def test_nothing_is_named_where_everything_can_be_pickled() -> None:
    assert culprit(object(), {"a": 1, "b": {"c": [closing_over(3), Holder(4)]}}) is None


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (reads_a_global, {"LOCK"}),
        (with_default, {"b"}),
        (closing_over(1), {"value"}),
        (partial(with_default, 1, b=2), {"argument 1", "b"}),
        (Holder(1).method, {"self"}),
        (Holder(1), {"fine", "held"}),
    ],
)
def test_a_function_carries_what_it_reads_and_what_is_bound_to_it(function: object, names: set[str]) -> None:
    assert set(used_by(function)) == names
