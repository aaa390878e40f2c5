"""What of a run counts, and which crashes a worker said that could not submit it for a while."""

from __future__ import annotations

import datetime
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import AwaitingRetry, Crashed, Pending, Running

from prefect_tpu.flows.work_pool.facts import RunFacts
from prefect_tpu.flows.work_pool.run_reading import is_unsubmitted, resubmissions, run_facts
from prefect_tpu.flows.work_pool.words import again

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
FAILED = "Failed to submit flow run to infrastructure: "


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("PrefectHTTPStatusError: Server error '503 Service Unavailable' for url 'http://s/api'", True),
        ("PrefectHTTPStatusError: Client error '429 Too Many Requests' for url 'http://s/api'", True),
        ("ConnectError: All connection attempts failed", True),
        ("ReadTimeout: ", True),
        ("RemoteProtocolError: Server disconnected", True),
        ("ConnectionResetError: [Errno 104]", True),
        ("OSError: [Errno 5]", True),
        ("PrefectHTTPStatusError: Client error '422 Unprocessable Entity' for url 'http://s/api'", False),
        ("ValueError: no such block", False),
        ("ValidationError: 1 error for it", False),
        ("UsageError: accelerator 'v99' is not known. ConnectError: no", False),
    ],
)
def test_a_submission_that_failed_for_a_while_is_known_by_what_the_worker_said(said: str, passes: bool) -> None:
    assert is_unsubmitted(Crashed(message=f"{FAILED}{said}")) is passes
    assert not is_unsubmitted(Crashed(message=said))
    assert not is_unsubmitted(Running(message=f"{FAILED}{said}"))


def test_submissions_in_vain_count_since_the_run_ran_last() -> None:
    states = [
        Pending(), AwaitingRetry(message=again(1)), Running(), Crashed(message="lost"), AwaitingRetry(message="lost"),
        AwaitingRetry(message=again(1)), Pending(), AwaitingRetry(message=again(2)), Pending(),
    ]  # fmt: skip
    timed = [state.model_copy(update={"timestamp": at(index)}) for index, state in enumerate(states)]
    assert resubmissions(list(reversed(timed))) == 2
    assert resubmissions(timed[:2]) == 1 and resubmissions(()) == 0


def at(second: int) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=second)


def run(state: State | None, **said: object) -> FlowRun:
    return FlowRun(flow_id=uuid4(), state=state, **said)  # type: ignore[arg-type]


def test_a_run_as_it_counts() -> None:
    assert run_facts(None, NOW, 3.0) == RunFacts(type=None, seconds=3.0)
    due = AwaitingRetry(scheduled_time=at(7), message="lost")
    found = run_facts(run(due, empirical_policy={"retry_type": "in_process"}), NOW)
    assert (found.type, found.name, found.message, found.due_in) == (StateType.SCHEDULED, "AwaitingRetry", "lost", 7.0)
    assert found.is_withheld and not found.has_deployment
    assert run_facts(run(due), at(9)).due_in == 0.0
    assert run_facts(run(Pending(), deployment_id=uuid4(), start_time=NOW), NOW) == RunFacts(
        type=StateType.PENDING, name="Pending", has_deployment=True
    )
