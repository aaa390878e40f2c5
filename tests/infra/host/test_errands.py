"""What a runner does in storage holds up nothing, and what storage refuses is brought again."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.errands import Errands

WaitUntil = Callable[..., None]


def refuse(age: float) -> bool:
    raise PlatformError("The bucket cannot be reached.")


def cannot_read(age: float) -> bool:
    raise OSError(errno.EIO, "Input/output error", "/scratch/log/0")


def never(age: float) -> bool:
    return False


def test_errands_come_by_turns_with_the_hosts_age(wait_until: WaitUntil) -> None:
    seen: list[tuple[str, float]] = []
    errands = Errands(lambda: 7.0, (lambda age: seen.append(("a", age)), lambda age: seen.append(("b", age))), {})
    errands.start()
    wait_until(lambda: len(seen) >= 4, "two turns")
    assert errands.end(None)
    count = len(seen)
    assert seen[:4] == [("a", 7.0), ("b", 7.0)] * 2 and len(seen) == count


@pytest.mark.parametrize(
    ("refuse", "why"),
    [(refuse, "The bucket cannot be reached."), (cannot_read, "[Errno 5] Input/output error: '/scratch/log/0'.")],
)
def test_what_is_refused_stops_neither_the_others_nor_the_next_time(
    wait_until: WaitUntil, capsys: pytest.CaptureFixture[str], refuse: Callable[[float], bool], why: str
) -> None:
    turns: list[float] = []
    errands = Errands(lambda: 0.0, (refuse, turns.append), {"q": refuse})
    errands.start()
    wait_until(lambda: len(turns) > 3, "later turns")
    assert errands.end(None)
    assert errands.answer is None
    said = capsys.readouterr().err
    assert said == f"prefect-tpu: {why} The program runs on, and it is tried again.\n"


def test_questions_are_asked_until_one_is_answered_with_yes(wait_until: WaitUntil) -> None:
    asked: list[str] = []

    def ask(name: str, yes_at: int) -> Callable[[float], bool]:
        def question(age: float) -> bool:
            asked.append(name)
            return asked.count(name) >= yes_at

        return question

    turns: list[float] = []
    errands = Errands(lambda: 0.0, (turns.append,), {"late": ask("late", 99), "soon": ask("soon", 3)})
    errands.start()
    wait_until(lambda: errands.answer, "an answer")
    count = len(turns)
    wait_until(lambda: len(turns) > count + 1, "errands after it")
    assert errands.end(None)
    assert errands.answer == "soon" and asked.count("soon") == 3


def test_one_that_hangs_is_left_behind() -> None:
    begun, released = threading.Event(), threading.Event()

    def hang(age: float) -> None:
        begun.set()
        released.wait()

    errands = Errands(lambda: 0.0, (hang,), {"q": never})
    errands.start()
    begun.wait()
    assert not errands.end(lambda: 0.0, at_least=0.2)
    released.set()
    assert errands.end(None)


def test_a_notice_that_comes_meanwhile_shortens_the_wait() -> None:
    begun, released = threading.Event(), threading.Event()

    def hang(age: float) -> None:
        begun.set()
        released.wait()

    errands = Errands(lambda: 0.0, (hang,), {})
    errands.start()
    begun.wait()
    left = iter([120.0, 119.0, -1.0])
    assert not errands.end(lambda: next(left), at_least=0.0)
    assert next(left, None) is None
    released.set()
    assert errands.end(None)
