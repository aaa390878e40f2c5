"""The parent of a host's program: starts it, watches over it, and writes how it ended.

It claims the host by a create-only file, so starting it twice runs the
program once. It ends the program's whole group, and whatever left that group,
in every case. What storage needs meanwhile is the matter of `errands`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Env, ExitCode, HostRecord, KilledBy, Scratch, StopReason
from prefect_tpu.infra.disk import told
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host import arriving, descendants, patience, payload, records, stacks
from prefect_tpu.infra.host.assignment import Assignment, NotOurs, assignment
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.host.errands import Errands
from prefect_tpu.infra.host.last_words import LastWords, leave_with_kubernetes
from prefect_tpu.infra.host.lease import LeaseWatch
from prefect_tpu.infra.host.ledger import LedgerShipper
from prefect_tpu.infra.host.memory import KillCount, counters
from prefect_tpu.infra.host.output import open_output
from prefect_tpu.infra.host.prefect_remnants import clear_away
from prefect_tpu.infra.host.signals import Notice, ToldToLeave
from prefect_tpu.infra.host.stalls import StallWatch
from prefect_tpu.infra.host.telling import ProgressTeller
from prefect_tpu.infra.scratch import joined_after, read_progress
from prefect_tpu.infra.storage import local_folder

LOOK_SECONDS = 0.05  # how often the program is looked at
KILLED_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)  # its own end, and a shell's word for a child's


def main(arguments: Sequence[str]) -> int:
    """Run one host: `PLAN [HOST]`. Returns the contract's exit code."""
    notice = Notice()  # before the claim: whoever sees the claim may give notice
    descendants.adopt()
    try:
        given = assignment(arguments, os.environ)
        if not given.storage.put_if_absent(layout.started(given.plan.attempt, given.host), _claim()):
            return _is_taken(given)
        runner = Runner(given, notice)
        begun = runner.begin()
    except NotOurs as exc:
        return _say_before_the_end(records.not_ours(os.environ.get(Env.ATTEMPT, ""), str(exc)))
    except (PlatformError, OSError) as exc:  # nothing has run, and the output may be what is out of reach
        return _say_before_the_end(records.cannot_begin(os.environ.get(Env.ATTEMPT, ""), exc))
    try:
        return (begun if isinstance(begun, HostRecord) else runner.finish(begun)).exit_code
    except PlatformError as exc:
        sys.stderr.write(f"prefect-tpu: this host cannot write down how it ended. {exc}\n")
        return 1


def _claim() -> bytes:
    return contract.write_json({"pid": os.getpid(), "machine": os.uname().nodename})


def _is_taken(given: Assignment) -> int:
    """A second runner of this machine is one too many. A second pod took the place of one that is gone.

    What that one had done is lost with it, so this one must not count as done.
    """
    if given.plan.scratch is None:
        return ExitCode.DONE
    return _say_before_the_end(records.taken(given.plan, given.host))


def _say_before_the_end(record: HostRecord) -> int:
    sys.stderr.write(f"prefect-tpu: {record.error.message if record.error else ''}\n")
    leave_with_kubernetes(record)
    return record.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """The program's process, what it was started with, and what looks after it."""

    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    stalls: StallWatch
    errands: Errands


class Runner:
    """One host of one attempt, from its claim to its record."""

    def __init__(self, given: Assignment, notice: Notice) -> None:
        self.given, self.notice = given, notice
        self.plan, self.host, self.scratch = given.plan, given.host, given.scratch
        self.started = time.monotonic()
        self.ended_at: float | None = None
        self.memory = KillCount(tuple(counters()), self.age)
        self.ledger = LedgerShipper(given.storage, given.scratch, self.plan.attempt, self.host)
        self.progress = ProgressTeller(given.storage, given.scratch, self.plan.attempt, self.host)
        with told("write", given.scratch):
            self.output = open_output(given.storage, self.plan, self.host)
        self.is_leaving = False
        self._is_on_a_disk = local_folder(given.storage) is not None
        self.words = LastWords(given, None if self._is_on_a_disk else self._left)

    @property
    def age(self) -> float:
        return time.monotonic() - self.started

    def begin(self) -> _Program | HostRecord:
        """The program, running; or the record of a host that has none, once it is left."""
        try:
            with self.notice.interrupting():
                self._look_for_a_stop()
                work = arriving.lay_out(self.given)
        except ToldToLeave:
            reason = self.words.reason(StopReason.NOTICE)
            return self.words.leave(records.told_to_leave(self.plan, self.host, reason, self.age))
        except payload.PayloadRefused as exc:
            return self.words.leave(records.refused(self.plan, self.host, str(exc), self.age))
        environment = self._environment()
        process = self._start(work, environment)
        stalls = StallWatch(self.plan, self.host, self.given.storage, process.pid, self.ledger.ship)
        return _Program(process=process, environment=environment, stalls=stalls, errands=self._errands(stalls))

    def finish(self, program: _Program) -> HostRecord:
        """Look after the program until it has ended, and after what it leaves."""
        reason, killed_by = self._watch(program.process, program.errands)
        _kill_group(program.process.pid)
        descendants.end()
        if self.plan.program.kind == "flow":
            clear_away(program.environment)
        self.ended_at = time.monotonic()
        return self._end(program, reason, killed_by)

    def _look_for_a_stop(self) -> None:
        """The first process of a pod does not hear a signal that comes before it listens."""
        if self.plan.scratch is not None and self.given.storage.get(layout.STOP) is not None:
            raise ToldToLeave

    def _environment(self) -> dict[str, str]:
        own = {
            Env.PLAN: str(self.given.plan_path),
            Env.SCRATCH: str(self.scratch),
            Env.RUNNER: str(os.getpid()),
            Env.STARTED: repr(self.started),
        }
        return program_environment(self.plan, self.host, inherited=os.environ, own=own, archive=self.given.archive)

    def _start(self, work: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """The program in a group of its own; its output goes to this host's log."""
        python = (self.given.archive and sys.executable) or self.plan.python
        process = subprocess.Popen(
            [python, "-P", "-m", "prefect_tpu.infra.host.program"],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output.descriptor,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.output.started()
        return process

    def _errands(self, stalls: StallWatch) -> Errands:
        """What is brought into storage while the program runs, and what is asked there; under way."""
        told = () if self.plan.scratch is None else (self.progress.tell_when_due,)
        questions: dict[str, Callable[[float], bool]] = {
            KilledBy.STALL: lambda age: not self._is_ending and stalls.is_stalled(age)
        }
        if self.plan.orphan_after is not None:
            lease = LeaseWatch(self.given.storage, self.plan.orphan_after, time.monotonic)
            questions[StopReason.ORPHANED] = lease.is_orphaned_at
        errands = Errands(lambda: self.age, (self.ledger.ship_when_due, *told, self.output.ship_when_due), questions)
        errands.start()
        return errands

    def _watch(self, process: subprocess.Popen[bytes], errands: Errands) -> tuple[StopReason | None, KilledBy | None]:
        """Until the program has ended: why it was told to leave, and who killed it; None where nobody did."""
        reason: StopReason | None = None
        kill_at: float | None = None
        ended = _end_of(process)
        while not ended.wait(LOOK_SECONDS):
            self.memory.look(self.age)
            descendants.bury(process.pid)
            if reason is None and (reason := self._told_to_leave(errands)) is not None:
                self._tell_to_leave(process)
                self.is_leaving = True
            if kill_at is None and self._is_ending:
                kill_at = self.age + self.plan.grace  # nor may it hang on its way out
            if kill_at is not None and self.age > kill_at:
                return reason, _kill(process, KilledBy.GRACE)
            if kill_at is None and errands.answer == KilledBy.STALL:
                return reason, _kill(process, KilledBy.STALL)
        is_out_of_memory = process.returncode in KILLED_CODES and self.memory.has_grown
        return reason, KilledBy.MEMORY if is_out_of_memory else None

    def _tell_to_leave(self, process: subprocess.Popen[bytes]) -> None:
        """A command may be a shell that does not pass a signal on; a function's own children are its business."""
        if self.plan.program.kind == "command":
            _signal_group(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGTERM)

    @property
    def _is_ending(self) -> bool:
        """Whether the program was told to leave or has said how it ended: on its way out it makes no steps."""
        return self.is_leaving or (self.scratch / Scratch.OUTCOME).exists()

    def _told_to_leave(self, errands: Errands) -> StopReason | None:
        if self.notice.is_given:
            return StopReason.NOTICE
        if self.plan.deadline is not None and self.age > self.plan.deadline:
            return StopReason.DEADLINE
        return StopReason.ORPHANED if errands.answer == StopReason.ORPHANED else None

    def _left(self) -> float:
        """Seconds to bring what is left into the output."""
        if self.notice.given_at is not None:
            return self.notice.given_at + self.plan.grace + patience.WRITING_SECONDS - time.monotonic()
        return (self.ended_at or self.started) + patience.LAST_SECONDS - time.monotonic()

    def _end(self, program: _Program, reason: StopReason | None, killed_by: KilledBy | None) -> HostRecord:
        """Bring everything into the output, the record last."""
        self.output.ended()
        is_quiet = program.errands.end(None if self._is_on_a_disk else self._left)
        if killed_by is not KilledBy.STALL:
            self.words.end_silence(program.stalls)
        record = records.compose(self.plan, self.host, self._ending(program, reason, killed_by))
        told = () if self.plan.scratch is None else (self.progress.tell,)
        return self.words.leave(record, *((self.ledger.ship, *told, self.output.ship) if is_quiet else ()))

    def _ending(self, program: _Program, reason: StopReason | None, killed_by: KilledBy | None) -> records.Ending:
        stalls = program.stalls
        return records.Ending(
            returncode=program.process.returncode,
            outcome=self.words.outcome(),
            stop_reason=self.words.reason(reason),
            joined_after=joined_after(self.scratch),
            ended_after=(self.ended_at or time.monotonic()) - self.started,
            progress=read_progress(self.scratch),
            killed_by=killed_by,
            silence=stalls.silence,
            stack=stacks.traceback(stalls.dump) if stalls.silence else "",
        )


def _end_of(process: subprocess.Popen[bytes]) -> threading.Event:
    """Set when the process has ended. `Popen.wait` with a timeout wakes a hundred times a second to find out."""
    ended = threading.Event()

    def wait() -> None:
        process.wait()
        ended.set()

    threading.Thread(target=wait, name="end of the program", daemon=True).start()
    return ended


def _kill(process: subprocess.Popen[bytes], by: KilledBy) -> KilledBy:
    _kill_group(process.pid)
    process.wait()
    return by


def _kill_group(group: int) -> None:
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
