"""The parent of a host's program: starts it, watches over it, and writes how it ended.

It claims the host by a create-only file, so starting it twice runs the
program once. It ends the program's whole group, and whatever left that group,
in every case.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Env, ExitCode, HostRecord, KilledBy, Scratch, StopReason
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host import descendants, payload, records, stacks
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.host.lease import LeaseWatch
from prefect_tpu.infra.host.ledger import LedgerShipper
from prefect_tpu.infra.host.memory import KillCount, counters
from prefect_tpu.infra.host.program import WORK
from prefect_tpu.infra.host.signals import Notice
from prefect_tpu.infra.host.stalls import StallWatch
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import joined_after, read_json, read_progress
from prefect_tpu.infra.storage import LocalStorage, open_storage

LOOK_SECONDS = 0.05  # how often the program is looked at
LEASE_LOOK_SECONDS = 1.0
KILLED_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)  # its own end, and a shell's word for a child's


def main(argv: Sequence[str]) -> int:
    """Run one host: `PLAN HOST`. Returns the contract's exit code."""
    plan_path, host = Path(argv[0]), int(argv[1])
    plan = HostPlan.from_json(plan_path.read_bytes())
    storage = open_storage(plan.output)
    scratch = storage.path(layout.scratch(plan.attempt, host))
    notice = Notice()  # before the claim: whoever sees the claim may give notice
    if not storage.put_if_absent(layout.started(plan.attempt, host), _claim()):
        return ExitCode.DONE  # another runner has this host
    descendants.adopt()
    runner = Runner(plan, host, storage, scratch, notice)
    record = runner.run(plan_path)
    if plan_path.exists():  # else somebody has deleted the job: a record would make its folder again
        storage.put_if_absent(layout.record(plan.attempt, host), record.to_json())
    return record.exit_code


def _claim() -> bytes:
    return contract.write_json({"pid": os.getpid()})


class Runner:
    """One host of one attempt, from its claim to its record."""

    def __init__(self, plan: HostPlan, host: int, storage: LocalStorage, scratch: Path, notice: Notice) -> None:
        self.plan, self.host, self.storage, self.scratch = plan, host, storage, scratch
        self.started = time.monotonic()
        self._next_lease_look = 0.0
        self.notice = notice
        self.lease = LeaseWatch(storage, plan.orphan_after, time.monotonic)
        self.memory = KillCount(tuple(counters()), self.age)
        self.ledger = LedgerShipper(storage, scratch, plan.attempt, host)

    @property
    def age(self) -> float:
        return time.monotonic() - self.started

    def run(self, plan_path: Path) -> HostRecord:
        work = self.scratch / WORK
        work.mkdir(parents=True, exist_ok=True)
        try:
            if self.plan.program.payload:
                payload.unpack(self.storage, self.plan.program.payload, work)
        except payload.PayloadRefused as exc:
            return records.refused(self.plan, self.host, str(exc), self.age)
        process = self._start(plan_path, work)
        stalls = StallWatch(self.plan, self.host, self.storage, process.pid, self.ledger.ship)
        reason, killed_by = self._watch(process, stalls)
        _kill_group(process.pid)
        descendants.end()
        if killed_by is not KilledBy.STALL:
            stalls.end_silence()
        self.ledger.ship()
        return records.compose(self.plan, self.host, self._ending(process.returncode, reason, killed_by, stalls))

    def _start(self, plan_path: Path, work: Path) -> subprocess.Popen[bytes]:
        """The program in a group of its own; its output goes to this host's log."""
        own = {
            Env.PLAN: str(plan_path),
            Env.SCRATCH: str(self.scratch),
            Env.RUNNER: str(os.getpid()),
            Env.STARTED: repr(self.started),
        }
        environment = program_environment(self.plan, self.host, inherited=os.environ, own=own)
        command = [self.plan.python, "-P", "-m", "prefect_tpu.infra.host.program"]
        with self.storage.path(layout.log(self.plan.attempt, self.host)).open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self, process: subprocess.Popen[bytes], stalls: StallWatch) -> tuple[StopReason | None, KilledBy | None]:
        """Until the program has ended: why it was told to leave, and who killed it; None where nobody did."""
        reason: StopReason | None = None
        kill_at: float | None = None
        ended = _end_of(process)
        while not ended.wait(LOOK_SECONDS):
            self._look_after(process.pid)
            if reason is None and (reason := self._told_to_leave()) is not None:
                self._tell_to_leave(process)
                kill_at = self.age + self.plan.grace
            if kill_at is None and (self.scratch / Scratch.OUTCOME).exists():
                kill_at = self.age + self.plan.grace  # it has said how it ended; it may not hang on its way out
            if kill_at is not None and self.age > kill_at:
                return reason, _kill(process, KilledBy.GRACE)
            if kill_at is None and stalls.is_stalled(self.age):
                return reason, _kill(process, KilledBy.STALL)
        is_out_of_memory = process.returncode in KILLED_CODES and self.memory.has_grown
        return reason, KilledBy.MEMORY if is_out_of_memory else None

    def _look_after(self, program: int) -> None:
        self.ledger.ship_when_due(self.age)
        self.memory.look(self.age)
        descendants.bury(program)

    def _tell_to_leave(self, process: subprocess.Popen[bytes]) -> None:
        """A command may be a shell that does not pass a signal on; a function's own children are its business."""
        if self.plan.program.kind == "command":
            _signal_group(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGTERM)

    def _told_to_leave(self) -> StopReason | None:
        if self.notice.is_given:
            return StopReason.NOTICE if self.storage.get(layout.STOP) is None else StopReason.STOP
        if self.plan.deadline is not None and self.age > self.plan.deadline:
            return StopReason.DEADLINE
        if self._lease_look_is_due() and self.lease.is_orphaned():
            return StopReason.ORPHANED
        return None

    def _lease_look_is_due(self) -> bool:
        due = self.age >= self._next_lease_look
        if due:
            self._next_lease_look = self.age + LEASE_LOOK_SECONDS
        return due

    def _outcome(self) -> dict[str, Any] | None:
        """The program's own account, once what it returned or raised lies where it is read from."""
        outcome = read_json(self.scratch / Scratch.OUTCOME)
        try:
            self._keep()
        except PlatformError as exc:
            return records.unkept(outcome, str(exc))
        return outcome

    def _keep(self) -> None:
        names = {Scratch.VALUE: layout.result, Scratch.EXCEPTION: layout.exception}
        for name, kept in names.items():
            path = self.scratch / name
            if path.exists():
                self.storage.put_if_absent(kept(self.plan.attempt, self.host), path.read_bytes())

    def _ending(
        self, returncode: int, reason: StopReason | None, killed_by: KilledBy | None, stalls: StallWatch
    ) -> records.Ending:
        return records.Ending(
            returncode=returncode,
            outcome=self._outcome(),
            stop_reason=reason,
            joined_after=joined_after(self.scratch),
            ended_after=self.age,
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
