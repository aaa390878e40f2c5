"""What is written about a job is seen in one look, on a disk and in a bucket, and what never changes is read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from counting import Counting

from prefect_tpu.infra import layout
from prefect_tpu.infra.drills import parse_drill
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.written import Reader
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.rehearsal import Note, take_note
from prefect_tpu.infra.storage import Storage, open_storage

MakeJob, MakePlan = Callable[..., SliceJob], Callable[..., HostPlan]
LOST = failure(FailureKind.HOST_LOST, "gone")


@pytest.fixture(params=["disk", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    place = tmp_path if request.param == "disk" else request.getfixturevalue("bucket")
    return open_storage(f"{place}/jobs/digits")


def ended(number: int) -> AttemptSummary:
    return AttemptSummary(
        number=number,
        accelerator="v6e-16",
        started=1.0,
        ended=2.0,
        outcome="host_lost",
        failure=LOST,
        places=("node-7",),
    )


@pytest.fixture
def begun(storage: Storage, make_job: MakeJob, make_plan: MakePlan) -> Storage:
    """Two rounds of two attempts each, of which the last one lives; one drill has struck."""
    history.enter(storage, make_job(drills=("kill@step=3",)))
    for number in (1, 2, 3, 4):
        storage.put(layout.plan(number), make_plan(attempt=number).to_json())
    for number in (1, 2, 3):
        history.write_outcome(storage, ended(number))
    storage.put(layout.round_end(2), b"{}")
    take_note(storage, 0, Note(drill=parse_drill("kill@step=3"), attempt=1, accelerator="v6e-16", number=3))
    return storage


def test_nothing_is_seen_of_a_job_that_is_not_there(storage: Storage) -> None:
    seen = Reader(storage).look()
    assert (seen.is_there, seen.is_stop_asked, seen.has_result, seen.last_number, seen.live) == (
        *(False, False, False, 0, None),
    )
    assert (seen.all_ended, seen.first_of_round, seen.notes, seen.obeyed) == ((), 1, {}, frozenset())


def test_a_job_is_seen_at_once(begun: Storage, make_plan: MakePlan) -> None:
    seen = Reader(begun).look()
    assert (seen.is_there, seen.is_stop_asked, seen.has_result) == (True, False, False)
    assert (seen.numbers, seen.live, seen.first_of_round) == ((1, 2, 3, 4), make_plan(attempt=4), 3)
    assert (seen.ended, seen.all_ended) == ((ended(3),), (ended(1), ended(2), ended(3)))
    assert set(seen.notes) == {0} and seen.obeyed == frozenset()


def test_what_happens_meanwhile_is_seen_at_the_next_look(begun: Storage, make_plan: MakePlan) -> None:
    reader = Reader(begun)
    reader.look()
    history.ask_to_stop(begun, "enough")
    history.write_outcome(begun, ended(4))
    begun.put(layout.obeyed(0), b"{}")
    history.write_result(
        begun, JobResult(job="digits", state="stopped", attempts=(), output=begun.url, value=None, failure=LOST)
    )
    seen = reader.look()
    assert (seen.is_stop_asked, seen.has_result, seen.live, seen.obeyed) == (True, True, None, frozenset({0}))
    assert [attempt.number for attempt in seen.ended] == [3, 4]
    begun.put(layout.plan(5), make_plan(attempt=5).to_json())
    begun.delete(layout.drill(0))
    begun.delete(layout.STOP)
    again = reader.look()
    assert (again.last_number, again.live, again.notes) == (5, make_plan(attempt=5), {})
    assert not again.is_stop_asked


def test_an_attempt_whose_plan_was_cut_short_is_none_until_it_has_one(begun: Storage, make_plan: MakePlan) -> None:
    begun.put(layout.log(5, 0), b"a folder without a plan")
    reader = Reader(begun)
    assert reader.look().last_number == 4
    begun.put(layout.plan(5), make_plan(attempt=5).to_json())
    assert reader.look().last_number == 5


def test_a_look_asks_little_however_many_attempts_there_were(begun: Storage) -> None:
    counting = Counting(begun)
    reader = Reader(counting)
    reader.look()
    counting.questions()
    reader.look()
    assert counting.questions() == [
        *("children ", "children attempts", "children drills", "children rounds"),
        "get attempts/4/outcome.json",
    ]


def test_a_look_at_a_job_in_its_first_round_asks_three_questions(
    storage: Storage, make_job: MakeJob, make_plan: MakePlan
) -> None:
    history.enter(storage, make_job())
    storage.put(layout.plan(1), make_plan(attempt=1).to_json())
    counting = Counting(storage)
    reader = Reader(counting)
    assert reader.look().live is not None
    counting.questions()
    reader.look()
    assert counting.questions() == ["children ", "children attempts", "get attempts/1/outcome.json"]
