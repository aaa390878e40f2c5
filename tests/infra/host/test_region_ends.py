"""What becomes of a region, by how its parts ended: the launcher's own rules are asked of the records that follow."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from prefect_tpu.infra.contract import ExitCode, Progress
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.host.records import Ending, compose
from prefect_tpu.infra.host.region_ends import Part, account, ended, raised_first, told
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failures import classify
from prefect_tpu.infra.state import HostObservation, HostPhase, Observation

ERROR = {"type": "ValueError", "message": "no such day", "traceback": "…"}
DONE = Part(returncode=0, outcome={"exit_code": 0})
RAISED = Part(returncode=80, outcome={"exit_code": 80, "error": ERROR})
OTHER = Part(returncode=80, outcome={"exit_code": 80, "error": {**ERROR, "message": "later"}})
AWAY = Part(returncode=80, outcome={"exit_code": 80, "error": {**ERROR, "type": "StorageAway"}})
LOST_PEER = Part(returncode=83, outcome={"exit_code": 83, "lost_peer": True, "error": ERROR})
LEFT = Part(returncode=81, outcome={"exit_code": 81})
WRONG = Part(returncode=82, outcome={"exit_code": 82, "error": ERROR})
KILLED = Part(returncode=-signal.SIGKILL)
OUT_OF_MEMORY = Part(returncode=-signal.SIGKILL, killed_by="memory")
CRASHED = Part(returncode=-signal.SIGSEGV)
ABORTED = Part(returncode=-signal.SIGABRT, has_joined=True)
ABORTED_ALONE = Part(returncode=-signal.SIGABRT)
EXITED = Part(returncode=3)
CUT = Part(returncode=-signal.SIGKILL, is_cut=True)
TOLD = Part(returncode=-signal.SIGTERM, is_told=True)
TOLD_AND_RAISED = Part(returncode=80, outcome={"exit_code": 80, "error": ERROR}, is_told=True)


@pytest.mark.parametrize(
    ("parts", "host"),
    [
        ([CUT, RAISED], 1),
        ([RAISED, OTHER], 0),
        ([LOST_PEER, RAISED], 1),
        ([LEFT, RAISED], 1),
        ([DONE, EXITED], 1),
        ([CRASHED, CUT], 0),
        ([LOST_PEER, ABORTED_ALONE], 1),
        ([AWAY, RAISED], None),
        ([RAISED, KILLED], None),
        ([RAISED, OUT_OF_MEMORY], None),
        ([RAISED, WRONG], None),
        ([RAISED, TOLD], None),
        ([TOLD_AND_RAISED, LOST_PEER], None),
        ([LOST_PEER, ABORTED], None),
        ([LEFT, LEFT], None),
        ([CUT, LOST_PEER], None),
    ],
)
def test_the_flow_hears_of_an_error_that_is_the_programs_own(parts: list[Part], host: int | None) -> None:
    assert raised_first(dict(enumerate(parts)), range(len(parts))) == host


def test_the_first_in_time_counts() -> None:
    assert raised_first({0: RAISED, 1: OTHER}, [1, 0]) == 1


@pytest.mark.parametrize(
    ("parts", "kind", "host"),
    [
        ([CUT, KILLED], FailureKind.HOST_LOST, 1),
        ([RAISED, KILLED], FailureKind.HOST_LOST, 1),
        ([LOST_PEER, OUT_OF_MEMORY], FailureKind.OUT_OF_MEMORY, 1),
        ([CUT, LEFT], FailureKind.PREEMPTED, 1),
        ([LEFT, LEFT], FailureKind.PREEMPTED, 0),
        ([WRONG, CUT], FailureKind.WRONG_TOPOLOGY, 0),
        ([AWAY, RAISED], FailureKind.UNKNOWN, 0),
        ([DONE, KILLED], FailureKind.HOST_LOST, 1),
    ],
)
def test_what_ends_an_attempt_is_judged_as_of_any_program(
    make_plan: Callable[..., HostPlan], parts: list[Part], kind: FailureKind, host: int
) -> None:
    plan = make_plan(len(parts))
    seen = [observed(plan, number, account(part, "a host was lost")) for number, part in enumerate(parts)]
    failure = classify(Observation(attempt=3, hosts=tuple(seen)))
    assert failure is not None
    assert (failure.kind, failure.host) == (kind, host)


def observed(plan: HostPlan, host: int, outcome: dict[str, Any]) -> HostObservation:
    ending = Ending(
        returncode=int(outcome["exit_code"]),
        outcome=outcome,
        stop_reason=None,
        joined_after=1.0,
        ended_after=9.0 + host,
        progress=Progress(),
    )
    record = compose(plan, host, ending)
    return HostObservation(host=host, phase=HostPhase.ENDED, exit_code=record.exit_code, joined=True, record=record)


def test_a_command_ends_a_host_with_its_code_or_signal(make_plan: Callable[..., HostPlan]) -> None:
    codes = [observed(make_plan(2), 0, ended(code)).record for code in (0, 3, -9)]
    found = [(r.exit_code, r.program_code, r.program_signal) for r in codes if r is not None]
    assert found == [
        (ExitCode.DONE, 0, None),
        (ExitCode.PROGRAM_RAISED, 3, None),
        (ExitCode.PROGRAM_RAISED, 80, 9),
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (RAISED, "raised ValueError: no such day"),
        (KILLED, "died of SIGKILL"),
        (OUT_OF_MEMORY, "was ended by the kernel's out-of-memory killer"),
        (LEFT, "was told to leave and left"),
        (EXITED, "ended with exit code 3"),
    ],
)
def test_how_a_part_ended_in_words(part: Part, text: str) -> None:
    assert told(part) == text


def test_a_part_travels() -> None:
    assert Part(**OUT_OF_MEMORY.to_json()) == OUT_OF_MEMORY
