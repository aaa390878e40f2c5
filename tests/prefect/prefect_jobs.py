"""Jobs of these tests: a folder each, and the orchestrators that drive them through Prefect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from prefect_server import wait_for

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.local_slices import LocalSlices
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.places import data_folder

COUNTER = Path(__file__).parent.parent / "programs" / "counter.py"
PROGRAM = f"{COUNTER}:main"
ACCELERATOR = "cpu-2x1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job with a machine's slice of its own, so that tests side by side do not wait for each other."""

    name: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_DATA_HOME": str(self.folder), Env.OUTPUT: str(self.folder / "jobs")}

    @property
    def output(self) -> Path:
        return self.folder / "jobs" / self.name

    @property
    def has_end(self) -> bool:
        return (self.output / layout.RESULT).exists()

    def wait_for_step(self, step: int) -> None:
        """Until every host has saved its state after `step`."""
        states = [self.output / "counter" / f"state-{host}.json" for host in range(2)]

        def look() -> bool:
            return all(path.exists() and json.loads(path.read_text())["next"] > step for path in states)

        wait_for(look, f"step {step} of {self.name}")

    def let_go_on(self) -> None:
        """Programs that hold at a step go on, now and later."""
        (self.output / "counter" / "go").touch()

    def lives(self) -> list[tuple[int, int, str]]:
        """(attempt, host, `began` or `left`) in order; a killed program leaves no second line."""
        path = self.output / "counter" / "lives.jsonl"
        lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        return [(line["attempt"], line["host"], line["event"]) for line in lines]

    def overlaps(self) -> str:
        """What programs saw of other attempts while they lived; empty where there was never more than one."""
        path = self.output / "counter" / "overlaps"
        return path.read_text() if path.exists() else ""

    def processes(self) -> list[psutil.Process]:
        """All live processes of any attempt of this job."""
        return [process for process in psutil.process_iter() if mark_of(process).startswith(f"{self.output}/")]

    def wait_until_gone(self) -> None:
        wait_for(lambda: not self.processes(), f"the end of all processes of {self.name}")

    def is_slice_free(self) -> bool:
        slices = LocalSlices(data_folder(self.environment) / "slices", 1)
        taken = slices.take("test")
        if isinstance(taken, str):
            return False
        slices.give_back(taken)
        return True


def mark_of(process: psutil.Process) -> str:
    """Of which attempt a live process is; empty where of none."""
    try:
        is_live = process.status() != psutil.STATUS_ZOMBIE
        return process.environ().get(Env.ATTEMPT, "") if is_live else ""
    except psutil.Error:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """One process that calls `prefect_tpu.train`."""

    pid: int
    outcome: Path
    log: Path

    @property
    def is_alive(self) -> bool:
        return psutil.pid_exists(self.pid)

    @property
    def said(self) -> str:
        """Its log as one line, for Prefect breaks those that are long."""
        return " ".join(self.log.read_text().split())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> None:
        wait_for(lambda: not self.is_alive, f"the end of the orchestrator {self.log}")

    def result(self) -> dict[str, Any]:
        """How the call went: `value state attempts`, or `error message notes`."""
        self.wait()
        assert self.outcome.exists(), self.log.read_text()
        found: dict[str, Any] = json.loads(self.outcome.read_text())
        return found


@dataclass
class Orchestrators:
    """Makes orchestrators, as forks of one process that has imported Prefect."""

    source: subprocess.Popen[str]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: list[Orchestrator] = field(default_factory=list)

    def start(
        self, job: Job, *, in_loop: bool = False, as_flow: bool = False, sweep: bool = False, **arguments: Any
    ) -> Orchestrator:
        """Call `prefect_tpu.train` for a job in a process of its own, or the flow behind it, or `sweep`."""
        wanted = {"name": job.name, "accelerator": ACCELERATOR, **arguments}
        how = {"in_loop": in_loop, "as_flow": as_flow, "sweep": sweep, "retrains": False}
        return self._start(job, {"arguments": wanted, **how})

    def retrain(self, job: Job, flow_options: Mapping[str, Any] | None, **arguments: Any) -> Orchestrator:
        """Run the flow `retrain` in a process of its own, with the folder and the slice of a job; without options of
        the flow call `prefect_tpu.retrain`.
        """
        return self._start(job, {"arguments": arguments, "retrains": True, "flow_options": flow_options})

    def _start(self, job: Job, request: Mapping[str, Any]) -> Orchestrator:
        job.folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            number = len(self._made)
            outcome, log = job.folder / f"outcome-{number}.json", job.folder / f"orchestrator-{number}.log"
            own = {"environment": job.environment, "outcome": str(outcome), "log": str(log)}
            self._made.append(Orchestrator(pid=self._fork({**request, **own}), outcome=outcome, log=log))
            return self._made[-1]

    def _fork(self, request: Mapping[str, Any]) -> int:
        assert self.source.stdin is not None and self.source.stdout is not None
        self.source.stdin.write(json.dumps(request) + "\n")
        self.source.stdin.flush()
        return int(self.source.stdout.readline())

    def kill_all(self) -> None:
        for made in self._made:
            if made.is_alive:
                os.kill(made.pid, signal.SIGKILL)
