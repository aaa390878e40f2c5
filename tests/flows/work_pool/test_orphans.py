"""Which jobs count as abandoned, and how the run ends whose process did not live to see its job's end."""

from __future__ import annotations

import pytest
from prefect.client.schemas.objects import StateType

from prefect_tpu.flows.work_pool.orphans import Orphan, is_abandoned, state_of
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.policy.failure_kinds import failure

RUNS, CANCELS = StateType.RUNNING, StateType.CANCELLING


@pytest.mark.parametrize(
    ("found", "is_one"),
    [
        (Orphan(was_driven=True, is_driven=True, run=RUNS, is_seen_twice=True), False),
        (Orphan(was_driven=True, is_driven=False), True),
        (Orphan(was_driven=True, is_driven=False, run=StateType.COMPLETED), True),
        (Orphan(was_driven=False, is_driven=False, is_seen_twice=True), False),
        (Orphan(was_driven=False, is_driven=False, run=RUNS), False),
        (Orphan(was_driven=False, is_driven=False, run=RUNS, is_seen_twice=True), True),
        (Orphan(was_driven=False, is_driven=False, run=CANCELS, is_seen_twice=True), True),
        (Orphan(was_driven=False, is_driven=False, run=StateType.CRASHED, is_seen_twice=True), False),
    ],
)
def test_a_job_is_abandoned_where_its_driver_was_killed_or_a_run_waits_for_it(found: Orphan, is_one: bool) -> None:
    assert is_abandoned(found) is is_one


@pytest.mark.parametrize(
    ("state", "type"),
    [("succeeded", StateType.COMPLETED), ("stopped", StateType.CANCELLED), ("failed", StateType.CRASHED)],
)
def test_its_run_ends_as_the_job_did(state: str, type: StateType) -> None:
    cause = failure(FailureKind.HOST_LOST, "Host 1 went.") if state == "failed" else None
    found = state_of(JobResult(job="digits", state=state, attempts=(), output="/o", value=None, failure=cause))
    assert found.type is type and found.message is not None and f"Job digits {state}" in found.message
    assert ("Host 1 went." in found.message) is (state == "failed")
