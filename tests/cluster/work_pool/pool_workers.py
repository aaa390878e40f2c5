"""Workers of a pool: real `prefect worker start` processes that a test may kill."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from control_plane import dies_with_parent
from prefect_server import PREFECT

LAST_CHARACTERS = 6000  # of what a worker said


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One process."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        """At once, with all that it started; what it has not written down is lost."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(slots=True, kw_only=True)
class Workers:
    """All workers of one pool."""

    pool: str
    folder: Path
    environment: Mapping[str, str]
    started: list[Worker] = field(default_factory=list)

    def start(self, **environment: str) -> Worker:
        """One more; it takes some seconds to come up."""
        name = f"{self.pool}-{len(self.started)}"
        log = self.folder / f"{name}.log"
        words = ["worker", "start", "--type", "tpu-slice", "--pool", self.pool, "--name", name]
        command = [*dies_with_parent(), *PREFECT, *words]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, env={**self.environment, **environment}, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        self.started.append(Worker(process=process, log=log))
        return self.started[-1]

    def stop(self) -> None:
        """At once: nothing waits for what they would still do."""
        for worker in self.started:
            if worker.process.poll() is None:
                worker.kill()

    def told(self) -> str:
        """The last words of each."""
        return "\n".join(f"{worker.log.name}: {worker.said[-LAST_CHARACTERS:]}" for worker in self.started)
