"""What became of a region, given how each host's part of it ended? Pure.

The program's own exception is the flow's business. Whatever else ends a region ends the attempt: then each host's
record says how its part ended, and the launcher finds the cause in the records as it does for every program.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from prefect_tpu.infra.contract import REGION_LOST, ExitCode, KilledBy, ProgramError
from prefect_tpu.infra.errors import StorageAway

# Signals by which a program ends itself through a defect of its own.
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT})
_BY_ITSELF = (ExitCode.DONE, ExitCode.PROGRAM_RAISED, ExitCode.PREEMPTED, ExitCode.LOST_PEER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How one host's process of a region ended.

    outcome: its own account; None where it left none.
    has_joined: it had met the others.
    is_told: it was told to leave, as its host was.
    is_cut: it was ended because another host's part had ended.
    """

    returncode: int
    outcome: dict[str, Any] | None = None
    has_joined: bool = False
    is_told: bool = False
    is_cut: bool = False
    killed_by: str | None = None

    @property
    def is_done(self) -> bool:
        return self.exit_code == ExitCode.DONE

    @property
    def exit_code(self) -> int:
        if self.outcome is not None:
            return int(self.outcome["exit_code"])
        if self.returncode == 0:
            return ExitCode.DONE
        return ExitCode.LOST_PEER if self._was_aborted else ExitCode.PROGRAM_RAISED

    @property
    def error(self) -> ProgramError | None:
        return ProgramError(**self.outcome["error"]) if self.outcome and "error" in self.outcome else None

    @property
    def is_lost(self) -> bool:
        """Ended from outside, or told to end; or the slice is not what it must be."""
        if self.is_done:
            return False
        return self.is_told or self.is_killed or self.exit_code not in _BY_ITSELF

    @property
    def is_killed(self) -> bool:
        """From outside, by a signal."""
        return self.outcome is None and self.returncode < 0 and -self.returncode not in _CRASHES

    @property
    def has_raised(self) -> bool:
        """Its own error, and no echo of another host's end."""
        return self.exit_code == ExitCode.PROGRAM_RAISED and not self.is_lost

    @property
    def is_away(self) -> bool:
        """A bucket was: the next attempt may find it."""
        return self.error is not None and self.error.type == StorageAway.__name__

    @property
    def _was_aborted(self) -> bool:
        """JAX ends a program whose peer died by SIGABRT, once the hosts had met."""
        return self.returncode == -signal.SIGABRT and self.has_joined

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def raised_first(parts: Mapping[int, Part], order: Sequence[int]) -> int | None:
    """The host whose program's own error ended the region; None where something else did.

    order: of the hosts, as they ended.
    """
    own = [host for host in order if not parts[host].is_cut]
    if any(parts[host].is_lost for host in own):
        return None
    raised = next((host for host in own if parts[host].has_raised), None)
    return None if raised is None or parts[raised].is_away else raised


def account(part: Part | None, why: str) -> dict[str, Any]:
    """A host's outcome where a region has ended the attempt: how its own part ended, else that it lost the others.

    part: None where it had none.
    why: what is known of the region's end.
    """
    if part is None or part.is_cut or part.is_done:
        error = ProgramError(type=REGION_LOST, message=why, traceback="")
        return {"exit_code": ExitCode.LOST_PEER, "lost_peer": True, "error": asdict(error)}
    if part.outcome is not None:
        return {key: value for key, value in part.outcome.items() if key not in ("result", "exception")}
    return {**ended(part.returncode, part.killed_by), "exit_code": part.exit_code}


def ended(returncode: int, killed_by: str | None = None) -> dict[str, Any]:
    """The outcome of a host whose process left no account: its code, or the signal that ended it."""
    if returncode == 0:
        return {"exit_code": ExitCode.DONE}
    how = {"signal": -returncode} if returncode < 0 else {"code": returncode}
    return {"exit_code": ExitCode.PROGRAM_RAISED, **how, **({"killed_by": killed_by} if killed_by else {})}


def of_no_command(name: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The same where there was no such command: its log alone would say which."""
    message = f"the flow's command {name!r} is not there, or cannot be run: the image or the environment lacks it"
    return {**outcome, "error": asdict(ProgramError(type="NoSuchCommand", message=message, traceback=""))}


def told(part: Part) -> str:
    """How it ended, for people."""
    if part.killed_by == KilledBy.MEMORY:
        return "was ended by the kernel's out-of-memory killer"
    if part.error is not None:
        return f"raised {part.error.type}: {part.error.message}"
    if part.outcome is None and part.returncode < 0:
        return f"died of {_name(-part.returncode)}"
    if part.exit_code == ExitCode.PREEMPTED:
        return "was told to leave and left"
    return f"ended with exit code {part.returncode}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
