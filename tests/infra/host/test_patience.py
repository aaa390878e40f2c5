"""What storage refuses is tried again for as long as there is time, and no longer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.patience import LONGEST_PAUSE, SHORTEST_PAUSE, insist


class Clock:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)

    def left_of(self, seconds: float) -> Callable[[], float]:
        return lambda: seconds - self.now


def refusing(times: int) -> Callable[[], str]:
    answers = iter([*[PlatformError("no")] * times, "done"])

    def act() -> str:
        answer = next(answers)
        if isinstance(answer, PlatformError):
            raise answer
        return answer

    return act


def test_what_is_taken_at_once_waits_for_nothing() -> None:
    clock = Clock()
    assert insist(refusing(0), clock.left_of(0), sleep=clock.sleep) == "done"
    assert clock.slept == []


def test_it_is_tried_again_less_and_less_often() -> None:
    clock = Clock()
    assert insist(refusing(6), clock.left_of(100), sleep=clock.sleep) == "done"
    assert clock.slept[0] == SHORTEST_PAUSE and clock.slept[-1] == LONGEST_PAUSE
    assert clock.slept == sorted(clock.slept)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 5.0])
def test_without_time_the_refusal_is_raised(seconds: float) -> None:
    clock = Clock()
    with pytest.raises(PlatformError, match="no"):
        insist(refusing(100), clock.left_of(seconds), sleep=clock.sleep)
    assert clock.now <= max(seconds, 0)


def test_a_notice_that_comes_meanwhile_leaves_less_time() -> None:
    clock = Clock()
    with pytest.raises(PlatformError):
        insist(refusing(100), lambda: 100.0 if clock.now < 3 else 0.0, sleep=clock.sleep)
    assert clock.now < 10


def test_a_storage_that_hangs_is_not_waited_for_when_time_is_up() -> None:
    released = threading.Event()
    try:
        with pytest.raises(PlatformError, match="has not answered in the time that was left"):
            insist(released.wait, Clock().left_of(0))
    finally:
        released.set()


def test_a_disk_is_asked_once() -> None:
    with pytest.raises(PlatformError, match="no"):
        insist(refusing(1), None)
    assert insist(refusing(0), None) == "done"
