"""What a host's record says, given how its program ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from prefect_tpu.infra.contract import (
    ExitCode,
    HostRecord,
    KilledBy,
    ProgramError,
    Progress,
    ResultInfo,
    Silence,
    Stage,
    StopReason,
)
from prefect_tpu.infra.host.records import Ending, compose, refused, unkept
from prefect_tpu.infra.plan import HostPlan

MakePlan = Callable[..., HostPlan]
ERROR = {"type": "ValueError", "message": "bad", "traceback": "…"}
INFO: dict[str, Any] = {"encoding": "json", "sha256": "a" * 64, "bytes": 4}
SILENCE = Silence(silent_for=61.5, where="train.py:41 in main", step=3)
DONE = {"exit_code": 0, "result": INFO}
RAISED = {"exit_code": 80, "error": ERROR, "lost_peer": False}
LOST = {"exit_code": 83, "error": ERROR, "lost_peer": True}
SAVED = {"exit_code": 81}


def ending(returncode: int | None, outcome: dict[str, Any] | None = None, **changes: Any) -> Ending:
    values = {"stop_reason": None, "joined_after": 2.0, "ended_after": 9.0, "progress": Progress()}
    return Ending(**{**values, "returncode": returncode, "outcome": outcome, **changes})


NOTICE, STOP = {"stop_reason": StopReason.NOTICE}, {"stop_reason": StopReason.STOP}
ORPHANED, DEADLINE = {"stop_reason": StopReason.ORPHANED}, {"stop_reason": StopReason.DEADLINE}
ALONE, NOT_MET = {"hosts": 1}, {"joined_after": None}
TABLE: dict[str, tuple[Ending, dict[str, int], int, dict[str, object]]] = {
    # by the program's own account
    "done": (ending(0, DONE), {}, 0, {"program_code": 0, "program_signal": None}),
    "raised": (ending(80, RAISED), {}, 80, {"program_code": 80, "lost_peer": False}),
    "lost a peer": (ending(83, LOST), {}, 83, {"lost_peer": True}),
    "saved and left": (ending(81, SAVED, **NOTICE), {}, 81, {"stop_reason": "notice"}),
    "saved, others had the notice": (ending(81, SAVED), {}, 81, {"stop_reason": None}),
    "wrong slice": (ending(82, {**RAISED, "exit_code": 82}), {}, 82, {}),
    "done, then hung and was killed": (ending(-9, DONE), {}, 0, {"program_signal": None}),
    "raised, then hung and was killed": (ending(-9, RAISED), {}, 80, {"program_signal": None}),
    # told to leave
    "done after a notice": (ending(0, DONE, **NOTICE), {}, 0, {"stop_reason": "notice"}),
    "raised after a notice": (ending(80, RAISED, **NOTICE), {}, 81, {}),
    "killed after its grace": (ending(-9, **NOTICE), {}, 81, {"program_signal": 9}),
    "stopped": (ending(81, SAVED, **STOP), {}, 85, {"stop_reason": "stop"}),
    "stopped, died of the signal": (ending(-15, **STOP), {}, 85, {"program_signal": 15}),
    "orphaned": (ending(81, SAVED, **ORPHANED), {}, 81, {"stop_reason": "orphaned"}),
    "deadline": (ending(-9, **DEADLINE), {}, 85, {"stop_reason": "deadline"}),
    "killed after its grace, by the runner": (
        ending(-9, **NOTICE, killed_by=KilledBy.GRACE),
        {},
        81,
        {"killed_by": "grace"},
    ),
    "killed for its memory": (ending(-9, killed_by=KilledBy.MEMORY), {}, 80, {"killed_by": "memory"}),
    "ran out of memory": (ending(80, {**RAISED, "out_of_memory": True}), {}, 80, {"out_of_memory": True}),
    "raised what travels": (ending(80, {**RAISED, "exception": INFO}), {}, 80, {"exception": ResultInfo(**INFO)}),
    "stood still": (
        ending(-9, killed_by=KilledBy.STALL, silence=SILENCE),
        {},
        86,
        {"killed_by": "stall", "silence": SILENCE, "program_signal": 9},
    ),
    # commands, and programs that left no account
    "command, 0": (ending(0), {}, 0, {"program_code": 0}),
    "command, 3": (ending(3), {}, 80, {"program_code": 3}),
    "killed": (ending(-9), {}, 80, {"program_signal": 9, "program_code": None, "lost_peer": False}),
    "crashed": (ending(-11), {}, 80, {"program_signal": 11, "lost_peer": False}),
    "aborted after the hosts met": (ending(-6), {}, 83, {"program_signal": 6, "lost_peer": True}),
    "aborted before they met": (ending(-6, **NOT_MET), {}, 80, {"lost_peer": False}),
    "aborted alone": (ending(-6), ALONE, 80, {"lost_peer": False}),
    "never started": (ending(None), {}, 80, {"program_code": None, "program_signal": None}),
    # how far it came
    "left by itself": (ending(80, RAISED), {}, 80, {"stage": Stage.LEAVING}),
    "died after the hosts met": (ending(-9), {}, 80, {"stage": Stage.JOINED}),
    "died before": (ending(-9, **NOT_MET), {}, 80, {"stage": Stage.STARTING}),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_record(make_plan: MakePlan, case: str) -> None:
    ended, changes, code, facts = TABLE[case]
    record = compose(make_plan(**changes), 2, ended)
    assert record.exit_code == code
    assert {name: getattr(record, name) for name in facts} == facts
    assert (record.attempt, record.host, record.ended_after, record.progress) == (3, 2, 9.0, Progress())
    assert HostRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize(
    "outcome",
    [
        {},
        {"exit_code": "0"},
        {"exit_code": 99},
        {"exit_code": 80, "error": {"type": "E"}},
        {"exit_code": 80, "error": "text"},
        {"exit_code": 0, "result": {"encoding": "json"}},
        {"exit_code": 80, "exception": {"encoding": "json"}},
    ],
)
def test_an_account_that_makes_no_sense_is_none(make_plan: MakePlan, outcome: dict[str, Any]) -> None:
    assert compose(make_plan(), 0, ending(3, outcome)) == compose(make_plan(), 0, ending(3))


def test_error_and_result_are_the_programs_own(make_plan: MakePlan) -> None:
    assert compose(make_plan(), 0, ending(80, RAISED)).error == ProgramError(**ERROR)
    assert compose(make_plan(), 0, ending(0, DONE)).result == ResultInfo(encoding="json", sha256="a" * 64, bytes=4)


def test_the_error_of_a_program_that_stood_still_is_where_it_stood(make_plan: MakePlan) -> None:
    stood = ending(-9, killed_by=KilledBy.STALL, silence=SILENCE, stack="Stack of the main thread")
    message = "no sign of life for 62 s in train.py:41 in main"
    expected = ProgramError(type="Stalled", message=message, traceback="Stack of the main thread")
    assert compose(make_plan(), 0, stood).error == expected


def test_every_signal_that_ends_a_program_is_in_its_record(make_plan: MakePlan) -> None:
    for number in signal.Signals:
        assert compose(make_plan(hosts=1), 0, ending(-number)).program_signal == number


def test_a_refused_payload_says_why(make_plan: MakePlan) -> None:
    record = refused(make_plan(), 1, "The payload was changed.", 0.5)
    assert record.exit_code == ExitCode.PAYLOAD_REFUSED
    assert record.error == ProgramError(type="PayloadRefused", message="The payload was changed.", traceback="")
    assert record.program_code is record.program_signal is None


def test_a_value_that_could_not_be_kept_is_a_failure_that_says_why() -> None:
    result = {"encoding": "json", "sha256": "a", "bytes": 1}
    lost = unkept({"version": 1, "exit_code": 0, "result": result}, "No space left. Make room.")
    assert lost is not None and "result" not in lost and lost["exit_code"] == ExitCode.PROGRAM_RAISED
    assert lost["error"]["message"] == "what the program returned is lost: No space left. Make room."


def test_an_exception_that_could_not_be_kept_is_still_told() -> None:
    account = {"exit_code": 80, "error": {"type": "E", "message": "m", "traceback": "t"}}
    assert unkept({**account, "exception": {"sha256": "a"}}, "full") == account
    assert unkept(None, "full") is None
