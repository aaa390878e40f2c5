"""What is a host's record, given how its program ended? Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import Any

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
from prefect_tpu.infra.errors import RefusedForGood
from prefect_tpu.infra.plan import HostPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a runner knows when its program has ended.

    returncode: as `subprocess` gives it, negative for a signal; None where it never started.
    outcome: the program's own account, None where it left none.
    killed_by: who sent it SIGKILL, None where nobody did or nobody knows.
    silence, stack: of a program that was ended because it stood still.
    """

    returncode: int | None
    outcome: dict[str, Any] | None
    stop_reason: StopReason | None
    joined_after: float | None
    ended_after: float
    progress: Progress
    killed_by: KilledBy | None = None
    silence: Silence | None = None
    stack: str = ""


def compose(plan: HostPlan, host: int, ending: Ending) -> HostRecord:
    """The record, with the contract's exit code."""
    if not _is_sound(ending.outcome):
        ending = replace(ending, outcome=None)
    outcome = ending.outcome or {}
    signal_number = -ending.returncode if ending.returncode is not None and ending.returncode < 0 else None
    lost_peer = bool(outcome.get("lost_peer")) or _aborted_by_peers(plan, ending, signal_number)
    return HostRecord(
        attempt=plan.attempt,
        host=host,
        exit_code=_exit_code(ending, lost_peer),
        program_code=outcome.get("code", ending.returncode) if signal_number is None else None,
        program_signal=outcome.get("signal") if outcome else signal_number,
        stage=_stage(ending),
        stop_reason=ending.stop_reason,
        joined_after=ending.joined_after,
        ended_after=ending.ended_after,
        progress=ending.progress,
        error=_error(ending, outcome),
        lost_peer=lost_peer,
        out_of_memory=bool(outcome.get("out_of_memory")),
        killed_by=ending.killed_by or outcome.get("killed_by"),
        silence=ending.silence,
        result=ResultInfo(**outcome["result"]) if "result" in outcome else None,
        exception=ResultInfo(**outcome["exception"]) if "exception" in outcome else None,
    )


def unkept(outcome: dict[str, Any] | None, why: str) -> dict[str, Any] | None:
    """The program's account where what it returned or raised could not be kept: without a value it is not done."""
    if outcome is None:
        return None
    rest = {name: fact for name, fact in outcome.items() if name not in ("result", "exception")}
    if "error" in rest:
        return rest
    error = {"type": "ValueNotKept", "message": f"what the program returned is lost: {why}", "traceback": ""}
    return {**rest, "exit_code": ExitCode.PROGRAM_RAISED, "error": error}


def _error(ending: Ending, outcome: dict[str, Any]) -> ProgramError | None:
    """What the program raised; of one that stood still, where it stood."""
    if "error" in outcome:
        return ProgramError(**outcome["error"])
    if ending.silence is None:
        return None
    at = f" in {ending.silence.where}" if ending.silence.where else ""
    message = f"no sign of life for {ending.silence.silent_for:.0f} s{at}"
    return ProgramError(type="Stalled", message=message, traceback=ending.stack)


def _is_sound(outcome: dict[str, Any] | None) -> bool:
    """Whether the program's account can be used: it lies where the program itself may write."""
    try:
        if outcome is not None:
            ExitCode(outcome["exit_code"])
            for name in ("code", "signal"):
                int(outcome.get(name, 0))
            KilledBy(outcome.get("killed_by", KilledBy.GRACE))
            ProgramError(**outcome.get("error", _NO_ERROR))
            ResultInfo(**outcome.get("result", _NO_RESULT))
            ResultInfo(**outcome.get("exception", _NO_RESULT))
    except (KeyError, TypeError, ValueError):
        return False
    return True


_NO_ERROR = {"type": "", "message": "", "traceback": ""}
_NO_RESULT = {"encoding": "", "sha256": "", "bytes": 0}
_STOP_CODES = {
    StopReason.NOTICE: ExitCode.PREEMPTED,
    StopReason.ORPHANED: ExitCode.PREEMPTED,
    StopReason.STOP: ExitCode.STOPPED,
    StopReason.DEADLINE: ExitCode.STOPPED,
}


def _exit_code(ending: Ending, lost_peer: bool) -> int:
    """Done counts even after a notice; otherwise being told to leave outranks how the program took it."""
    outcome = ending.outcome
    if outcome and outcome["exit_code"] == ExitCode.DONE:
        return ExitCode.DONE
    if ending.stop_reason is not None:
        return _STOP_CODES[ending.stop_reason]
    if ending.killed_by is KilledBy.STALL:
        return ExitCode.STALLED
    if outcome:
        return int(outcome["exit_code"])
    if ending.returncode == 0:
        return ExitCode.DONE
    return ExitCode.LOST_PEER if lost_peer else ExitCode.PROGRAM_RAISED


def _aborted_by_peers(plan: HostPlan, ending: Ending, signal_number: int | None) -> bool:
    """JAX's coordination service aborts a program whose peer died: SIGABRT, once the hosts had met."""
    return signal_number == signal.SIGABRT and plan.hosts > 1 and ending.joined_after is not None


def _stage(ending: Ending) -> str:
    if ending.outcome is not None:
        return Stage.LEAVING
    return Stage.JOINED if ending.joined_after is not None else Stage.STARTING


def refused(plan: HostPlan, host: int, message: str, ended_after: float) -> HostRecord:
    """The record of a host whose payload was not what was sent."""
    return HostRecord(
        attempt=plan.attempt,
        host=host,
        exit_code=ExitCode.PAYLOAD_REFUSED,
        ended_after=ended_after,
        error=ProgramError(type="PayloadRefused", message=message, traceback=""),
    )


def not_ours(mark: str, message: str) -> HostRecord:
    """The last words of a process that was given another attempt's plan, or none; `mark` is what it was made for."""
    return _unbegun(mark, ExitCode.PAYLOAD_REFUSED, "PlanRefused", message)


def cannot_begin(mark: str, why: Exception) -> HostRecord:
    """The last words of a host whose storage or disk refused before its program started; `mark` is its attempt's."""
    code = ExitCode.PAYLOAD_REFUSED if isinstance(why, RefusedForGood) else ExitCode.CANNOT_BEGIN
    return _unbegun(mark, code, "CannotBegin", str(why))


def _unbegun(mark: str, code: ExitCode, kind: str, message: str) -> HostRecord:
    """Which host it was, whoever reads the words knows by the pod that said them."""
    attempt = mark.rpartition("/")[2]
    return HostRecord(
        attempt=int(attempt) if attempt.isdecimal() else 0,
        host=0,
        exit_code=code,
        error=ProgramError(type=kind, message=message, traceback=""),
    )


def told_to_leave(plan: HostPlan, host: int, reason: StopReason | None, ended_after: float) -> HostRecord:
    """The record of a host whose program was not started any more."""
    ending = Ending(
        returncode=None,
        outcome=None,
        stop_reason=reason,
        joined_after=None,
        ended_after=ended_after,
        progress=Progress(),
    )
    return compose(plan, host, ending)


def taken(plan: HostPlan, host: int) -> HostRecord:
    """The last words of a host that another has begun before: that one is gone, or this one is one too many."""
    message = f"Host {host} of {plan.mark} was begun by another pod before, so this one does not run it again."
    return HostRecord(
        attempt=plan.attempt,
        host=host,
        exit_code=ExitCode.LOST_PEER,
        lost_peer=True,
        error=ProgramError(type="HostTaken", message=message, traceback=""),
    )
