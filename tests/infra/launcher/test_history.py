"""What is written about a job reads back, and a new round may begin however often it was cut short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import Conflict, Failure, FailureKind, PlatformError
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.written import Reader
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.storage import LocalStorage

MakeJob, MakePlan = Callable[..., SliceJob], Callable[..., HostPlan]


class Killed(BaseException):
    """This process ends here."""


class CutShort(LocalStorage):
    """A disk whose user is killed instead of making its change number `allowed`."""

    def __init__(self, root: Path, allowed: int) -> None:
        super().__init__(root)
        self.allowed = allowed

    def put(self, name: str, data: bytes) -> None:
        self._count()
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._count()
        return super().put_if_absent(name, data)

    def delete(self, name: str) -> None:
        self._count()
        super().delete(name)

    def _count(self) -> None:
        if self.allowed == 0:
            raise Killed
        self.allowed -= 1


def summary(number: int, **changes: Any) -> AttemptSummary:
    lost = failure(FailureKind.HOST_LOST, "gone", host=1, evidence=["host 1: no record"])
    values = {"accelerator": "v6e-16", "started": 1.0, "ended": 2.0, "outcome": "host_lost", "failure": lost}
    return AttemptSummary(**{**values, "number": number, "saved_step": 7, **changes})


def result(state: str, *attempts: AttemptSummary) -> JobResult:
    end = None if state == "succeeded" else failure(FailureKind.HOST_LOST, "gone")
    return JobResult(job="digits", state=state, attempts=attempts, output="/out/digits", value=[1], failure=end)


def played(storage: LocalStorage, make_plan: MakePlan, numbers: range, state: str) -> None:
    """A round with these attempts and that end."""
    for number in numbers:
        storage.put(layout.plan(number), make_plan(attempt=number).to_json())
        history.write_outcome(storage, summary(number))
    if state == "stopped":
        history.ask_to_stop(storage, "enough")
    history.write_result(storage, result(state, *map(summary, numbers)))


@pytest.mark.parametrize("first", [None, failure(FailureKind.PROGRAM_ERROR, "ValueError: no", host=1, evidence=["x"])])
def test_an_attempt_is_judged_once(storage: LocalStorage, first: Failure | None) -> None:
    """Survivors that were ended after the verdict left no record: that makes no lost host of them."""
    assert history.judge(storage, 2, first) == first
    assert history.judge(storage, 2, failure(FailureKind.HOST_LOST, "gone", host=0)) == first


def test_a_job_enters_once(storage: LocalStorage, make_job: MakeJob) -> None:
    assert history.read_job(storage) is None
    assert history.enter(storage, make_job()) == make_job()
    assert history.enter(storage, make_job()) == make_job()
    with pytest.raises(Conflict, match="grace"):
        history.enter(storage, make_job(grace=1.0))
    assert history.read_job(storage) == make_job()


def test_a_job_that_failed_goes_on_with_other_settings(storage: LocalStorage, make_job: MakeJob) -> None:
    history.enter(storage, make_job(drills=("kill@step=1",)))
    storage.put(layout.drill(0), b"struck")
    history.write_result(storage, result("failed"))
    again = make_job(grace=1.0, accelerators=("v6e-8",), drills=("fail@step=2",))
    assert history.enter(storage, again) == again
    history.begin_round(storage, again)
    assert history.read_job(storage) == again
    assert storage.get(layout.drill(0)) is None, "the new drill has not struck"
    with pytest.raises(Conflict, match="grace.* stop it first"):
        history.enter(storage, make_job(grace=2.0, accelerators=("v6e-8",), drills=("fail@step=2",)))


@pytest.mark.parametrize("state", ["failed", "stopped", "succeeded"])
def test_a_job_that_ended_is_still_the_same_program(storage: LocalStorage, make_job: MakeJob, state: str) -> None:
    history.enter(storage, make_job())
    history.write_result(storage, result(state))
    with pytest.raises(Conflict, match=r"differently: env 'A' .*\. Use the same values"):
        history.enter(storage, make_job(env={"A": "1"}, grace=1.0))


def test_struck_drills_stay_struck_in_a_new_round(storage: LocalStorage, make_job: MakeJob) -> None:
    history.enter(storage, make_job(drills=("kill@step=1",)))
    storage.put(layout.drill(0), b"struck")
    history.write_result(storage, result("failed"))
    history.begin_round(storage, make_job(drills=("kill@step=1",), grace=1.0))
    assert storage.get(layout.drill(0)) == b"struck"


def test_attempts_are_those_that_have_a_plan(storage: LocalStorage, make_plan: MakePlan) -> None:
    assert history.attempt_numbers(storage) == []
    for number in (2, 10, 1):
        storage.put(layout.plan(number), make_plan(attempt=number).to_json())
    storage.put(layout.log(11, 0), b"a host's folder without a plan")
    storage.put("attempts/notes/plan.json", b"{}")
    assert history.attempt_numbers(storage) == [1, 2, 10]
    assert history.read_plan(storage, 10) == make_plan(attempt=10)
    with pytest.raises(PlatformError, match=r"attempts/11/plan\.json is missing from .*digits"):
        history.read_plan(storage, 11)


def test_outcomes_survive_and_the_first_one_stands(storage: LocalStorage, make_plan: MakePlan) -> None:
    assert history.read_outcome(storage, 1) is None
    for number, outcome in ((1, summary(1)), (2, summary(2, outcome="succeeded", failure=None, ended=None))):
        storage.put(layout.plan(number), make_plan(attempt=number).to_json())
        history.write_outcome(storage, outcome)
        assert history.read_outcome(storage, number) == outcome
    history.write_outcome(storage, summary(1, outcome="program_error"))
    storage.put(layout.plan(3), make_plan(attempt=3).to_json())
    assert [ended.outcome for ended in history.all_ended(storage)] == ["host_lost", "succeeded"]


def test_the_first_end_of_a_job_stands(storage: LocalStorage) -> None:
    assert history.read_result(storage) is None
    first = replace(result("failed", summary(1)), output=storage.url)  # where it lies now, wherever it was written
    assert history.write_result(storage, result("failed", summary(1))) == first
    assert history.write_result(storage, result("succeeded")) == first


def test_a_wish_to_stop_is_there_until_a_new_round(
    storage: LocalStorage, make_plan: MakePlan, make_job: MakeJob
) -> None:
    assert not history.is_stop_asked(storage)
    played(storage, make_plan, range(1, 2), "stopped")
    assert history.is_stop_asked(storage)
    history.begin_round(storage, make_job())
    assert not history.is_stop_asked(storage)


def test_a_damaged_outcome_is_not_taken_for_none(storage: LocalStorage) -> None:
    storage.put(layout.outcome(1), b"{")
    with pytest.raises(ContractError, match=r"attempts/1/outcome\.json is damaged.*The file is /.*outcome\.json"):
        history.read_outcome(storage, 1)


@pytest.mark.parametrize("state", ["failed", "stopped"])
@pytest.mark.parametrize("attempts", [0, 2])
def test_a_new_round_begins_afresh_wherever_it_was_cut_short_before(
    storage: LocalStorage, make_plan: MakePlan, make_job: MakeJob, state: str, attempts: int
) -> None:
    played(storage, make_plan, range(1, attempts + 1), state)
    end = history.read_result(storage)
    cut = 0
    while True:
        try:
            history.begin_round(CutShort(storage.root, allowed=cut), make_job(grace=7.0))
            break
        except Killed:
            cut += 1
            # A stop without an end would be obeyed: it must never outlive the end.
            assert history.read_result(storage) == end
    assert cut == 4
    assert history.read_job(storage) == make_job(grace=7.0)
    assert history.read_result(storage) is None
    assert not history.is_stop_asked(storage)
    assert Reader(storage).look().first_of_round == attempts + 1
    assert Reader(storage).look().ended == ()
    assert len(history.all_ended(storage)) == attempts
    history.begin_round(storage, make_job())
    assert Reader(storage).look().first_of_round == attempts + 1


def test_rounds_are_counted_on(storage: LocalStorage, make_plan: MakePlan, make_job: MakeJob) -> None:
    played(storage, make_plan, range(1, 3), "failed")
    history.begin_round(storage, make_job())
    played(storage, make_plan, range(3, 12), "stopped")
    assert [ended.number for ended in Reader(storage).look().ended] == list(range(3, 12))
    history.begin_round(storage, make_job())
    assert Reader(storage).look().first_of_round == 12
    assert storage.list("rounds") == ["rounds/11.json", "rounds/2.json"]


def test_a_succeeded_job_has_no_further_round(storage: LocalStorage, make_plan: MakePlan, make_job: MakeJob) -> None:
    played(storage, make_plan, range(1, 2), "succeeded")
    history.begin_round(storage, make_job())
    assert history.read_result(storage) == replace(result("succeeded", summary(1)), output=storage.url)
    assert storage.list("rounds") == []
