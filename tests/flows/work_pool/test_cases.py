"""What a process knows of runs and their jobs between two looks."""

from __future__ import annotations

from uuid import UUID, uuid4

from asked_runs import RUN
from prefect.client.schemas.objects import FlowRun
from prefect.states import Pending, Running

from prefect_tpu.flows.work_pool.cases import REMEMBERED, Case, Cases


def pending() -> FlowRun:
    return FlowRun(id=RUN, flow_id=UUID(int=7), state=Pending(), state_id=uuid4())


def test_a_state_counts_from_when_it_was_first_seen() -> None:
    case, run = Case(id=RUN, folder="/jobs/a"), pending()
    assert case.saw(run, 10.0) and not case.saw(run, 20.0) and case.since == 10.0
    assert case.saw(run.model_copy(update={"state": Running(), "state_id": uuid4()}), 30.0) and case.since == 30.0


def test_a_state_that_this_process_gave_is_not_asked_about() -> None:
    known, state, said = Cases(), Running(), uuid4()
    assert known.knows(RUN, said), "of no open case nobody wants to know"
    case = known.at(RUN, "/jobs/a")
    case.moved(state, 10.0)
    assert not known.knows(RUN, said) and case.run is None, "nothing is known of it"
    case.saw(pending(), 20.0)
    case.moved(state, 30.0)
    assert known.knows(RUN, state.id) and not known.knows(RUN, said) and case.since == 30.0
    assert not case.saw(case.run, 40.0), "the next look finds it as it was"
    assert case.run is not None and (case.run.state, case.run.state_name) == (state, "Running")


def test_where_a_job_is_says_its_run_itself() -> None:
    """A folder that is only guessed from a run's id may be somebody else's."""
    known = Cases()
    case = known.at(RUN, "/jobs/a")
    case.saw(pending(), 10.0)
    assert known.folders() == frozenset()
    case.saw(pending().model_copy(update={"infrastructure_pid": "/jobs/a"}), 20.0)
    assert known.folders() == {"/jobs/a"}
    known.close(case)
    assert known.folders() == frozenset()


def test_a_job_s_folder_is_known_until_its_case_is_closed_and_may_be_another_one() -> None:
    known = Cases()
    assert known.folder_of(RUN) == ""
    first = known.at(RUN, "/jobs/a")
    assert known.at(RUN, "/jobs/a") is first and known.folder_of(RUN) == "/jobs/a"
    moved = known.at(RUN, "/others/a")
    known.close(first)
    assert known.folder_of(RUN) == "/others/a"
    known.close(moved)
    assert known.folder_of(RUN) == ""


def test_what_is_over_is_not_looked_at_again_until_its_run_changes() -> None:
    known, run = Cases(), pending()
    case = known.at(RUN, "/jobs/a")
    case.saw(run, 1.0)
    known.close(case)
    assert known.is_over(run) and not known.is_over(pending())


def test_no_more_are_remembered_than_so_many() -> None:
    known = Cases()
    for number in range(REMEMBERED + 5):
        known.close(known.at(UUID(int=number), "/jobs/a"))
    assert len(known.over) == REMEMBERED and not known.open
