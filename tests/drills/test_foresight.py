"""What sequences of drills are compared with is right itself: worked out by hand, and wide enough."""

from __future__ import annotations

import pytest
from foresight import ENDS, ERRORS, SMALL, Attempt, Foresight, Sequence, Tie, draw

from prefect_tpu.infra.drills import parse_drill

FIRST, SECOND = SMALL.accelerators


def foreseen(*drills: str, max_failures: int = 0) -> Foresight:
    """Twelve steps on two hosts; saved after steps 2, 5, 8 and 11."""
    parsed = tuple(map(parse_drill, drills))
    return Foresight(Sequence(seed=1, arena=SMALL, drills=parsed, max_failures=max_failures)).play()


DONE: Attempt = ("succeeded", None, FIRST)
LOST: Attempt = ("host_lost", 0, FIRST)


@pytest.mark.parametrize(
    ("drills", "attempts"),
    [
        ((), [DONE]),
        (("slow@step=3",), [DONE]),
        (("kill@step=4,host=1",), [("host_lost", 1, FIRST), DONE]),
        (("kill@step=4,attempt=2",), [DONE]),
        (("preempt@step=4,host=1", "hang@step=5"), [("preempted", 1, FIRST), ("stalled", 0, FIRST), DONE]),
        (("kill@save=4",), [LOST, DONE]),
        (("kill@save=5",), [DONE]),
        (("kill@step=9", "hang@save=1,attempt=2"), [LOST, ("stalled", 0, FIRST), DONE]),
        (("kill@step=11", "hang@save=2,attempt=2"), [LOST, DONE]),  # all but the last save were made before
        (("preempt@save=4", "kill@step=12"), [("preempted", 0, FIRST), DONE]),  # nothing is left to do
        (("stockout@step=3,host=1",), [("preempted", 1, FIRST), ("succeeded", None, SECOND)]),
        (("stockout@start",), [("succeeded", None, SECOND)]),
        (("stockout@attempt=2", "kill@start"), [LOST, ("succeeded", None, SECOND)]),
    ],
)
def test_how_attempts_end(drills: tuple[str, ...], attempts: list[Attempt]) -> None:
    job = foreseen(*drills)
    assert (job.attempts, job.failure, job.deaths) == (attempts, None, 0)


def test_errors_are_forgiven_as_often_as_was_said() -> None:
    drills = ("fail@step=1,host=1", "oom@step=1", "fail@step=2,attempt=3")
    errors = [("program_error", 1, FIRST), ("out_of_memory", 0, FIRST), ("program_error", 0, FIRST)]
    assert foreseen(drills[0]).failure == ("program_error", 1)
    assert foreseen(drills[0], "oom@step=2", max_failures=2).attempts == [*errors[:2], DONE]
    told = foreseen("fail@step=1,host=1", "oom@step=2", "fail@step=2,attempt=3", max_failures=2)
    assert (told.attempts, told.failure) == (errors, ("program_error", 0))


def test_without_an_offer_nothing_begins() -> None:
    job = foreseen("stockout@start", "stockout@start")
    assert (job.attempts, job.failure) == ([], ("no_capacity", None))


def test_the_end_of_a_driver_costs_no_attempt() -> None:
    job = foreseen("orchestrator-kill@step=2", "orchestrator-kill@save=2", "kill@save=5")
    assert (job.attempts, job.deaths, job.struck) == ([DONE], 2, {0, 1})


def test_two_drills_at_once_are_no_sequence() -> None:
    with pytest.raises(Tie):
        foreseen("kill@step=4", "fail@step=4")


def test_the_sequences_try_every_kind_of_end() -> None:
    jobs = [Foresight(draw(seed, SMALL)).play() for seed in range(1, 101)]
    assert {attempt[0] for job in jobs for attempt in job.attempts} == {*ENDS.values(), "succeeded"}
    assert {job.failure and job.failure[0] for job in jobs} == {None, "no_capacity", *ERRORS}
    assert {job.deaths for job in jobs} >= {0, 1, 2}
