"""The parent of a host's program: starts it, watches over it, and writes how it ended.

It claims the host by a create-only file, so starting it twice runs the
program once. It ends the whole process group of the program in every case.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Env, ExitCode, HostRecord, Scratch, StopReason
from prefect_tpu.infra.host import payload, records
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.host.lease import LeaseWatch
from prefect_tpu.infra.host.ledger import LedgerShipper
from prefect_tpu.infra.host.program import WORK
from prefect_tpu.infra.host.signals import Notice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import joined_after, read_json, read_progress
from prefect_tpu.infra.storage import LocalStorage, open_storage

LOOK_SECONDS = 0.05  # how often the program is looked at
LEASE_LOOK_SECONDS = 1.0


def main(argv: Sequence[str]) -> int:
    """Run one host: `PLAN HOST`. Returns the contract's exit code."""
    plan_path, host = Path(argv[0]), int(argv[1])
    plan = HostPlan.from_json(plan_path.read_bytes())
    storage = open_storage(plan.output)
    scratch = storage.path(layout.scratch(plan.attempt, host))
    notice = Notice()  # before the claim: whoever sees the claim may give notice
    if not storage.put_if_absent(layout.started(plan.attempt, host), _claim()):
        return ExitCode.DONE  # another runner has this host
    runner = Runner(plan, host, storage, scratch, notice)
    record = runner.run(plan_path)
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
        reason = self._watch(process)
        _kill_group(process.pid)
        self.ledger.ship()
        self._keep_value()
        return records.compose(self.plan, self.host, self._ending(process.returncode, reason))

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

    def _watch(self, process: subprocess.Popen[bytes]) -> StopReason | None:
        """Until the program has ended: why it was told to leave, None where it was not."""
        reason: StopReason | None = None
        kill_at: float | None = None
        while True:
            try:
                process.wait(LOOK_SECONDS)
                return reason
            except subprocess.TimeoutExpired:
                pass
            self.ledger.ship_when_due(self.age)
            if reason is None and (reason := self._told_to_leave()) is not None:
                process.send_signal(signal.SIGTERM)
                kill_at = self.age + self.plan.grace
            if kill_at is None and (self.scratch / Scratch.OUTCOME).exists():
                kill_at = self.age + self.plan.grace  # it has said how it ended; it may not hang on its way out
            if kill_at is not None and self.age > kill_at:
                _kill_group(process.pid)
                process.wait()
                return reason

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

    def _keep_value(self) -> None:
        value = self.scratch / Scratch.VALUE
        if value.exists():
            self.storage.put_if_absent(layout.result(self.plan.attempt, self.host), value.read_bytes())

    def _ending(self, returncode: int, reason: StopReason | None) -> records.Ending:
        return records.Ending(
            returncode=returncode,
            outcome=read_json(self.scratch / Scratch.OUTCOME),
            stop_reason=reason,
            joined_after=joined_after(self.scratch),
            ended_after=self.age,
            progress=read_progress(self.scratch),
        )


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
