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
