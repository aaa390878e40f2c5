"""A world for sweeps: jobs that run on when whoever drives them dies, and a storage that dies at a given write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import JobResult, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.driver import Call

STEPS = 32
STOPPED = Failure(kind=FailureKind.STOPPED, retryable=False, message="asked to stop.", advice="")


class Died(BaseException):
    """The process was killed."""


class Death:
    """Comes at a write, or just after it; at none where it is not told when."""

    def __init__(self, at: int | None = None, *, after: bool = False) -> None:
        self.writes, self._at, self._after = 0, at, after

    def around(self, write: Callable[[], Any]) -> Any:
        self.writes += 1
        if self._at is not None and (self.writes > self._at or (self.writes == self._at and not self._after)):
            raise Died
        done = write()
        if self.writes == self._at:
            raise Died
        return done


class MortalStorage(LocalStorage):
    """A folder whose writer may die; what is below it dies with it."""

    def __init__(self, root: Path | str, death: Death) -> None:
        super().__init__(root)
        self._death = death

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return bool(self._death.around(lambda: LocalStorage.put_if_absent(self, name, data)))

    def put(self, name: str, data: bytes) -> None:
        self._death.around(lambda: LocalStorage.put(self, name, data))

    def inside(self, folder: str) -> LocalStorage:
        return MortalStorage(self.path(folder), self._death)


@dataclass
class World:
    """Jobs by their names. One that was begun goes on, whether anybody drives it or not.

    loss: of a job's parameters; how many steps it takes until it is that low tells how good it is before.
    """

    output: Path
    chips: int = 1
    loss: Callable[[dict[str, Any]], float] = lambda params: float(params["lr"])
    running: set[str] = field(default_factory=set)
    starts: Counter[str] = field(default_factory=Counter)
    most: int = 0

    def drive(self, call: Call) -> None:
        """Begin the job of a call, or take it over."""
        storage = LocalStorage(call.folder)
        if call.parameters is None or call.job in self.running:
            return
        assert history.read_result(storage) is None or history.is_stop_asked(storage), "what is over is not done again"
        self.starts[call.job] += 1
        self.running.add(call.job)
        self.most = max(self.most, len(self.running) * self.chips)
        storage.delete(layout.STOP)
        storage.delete(layout.RESULT)
        program = Program(kind="module", target="m:f", params=call.parameters["params"])
        storage.put_if_absent(layout.JOB, SliceJob(name=call.job, program=program, accelerators=("cpu",)).to_json())
        lines = (json.dumps({"event": "step", "step": step, "loss": self._loss(storage)}) for step in range(STEPS))
        storage.put_if_absent(layout.host_ledger(1, 0, 0), "".join(f"{line}\n" for line in lines).encode())

    def end(self, job: str) -> None:
        """A job comes to its end: stopped where it was asked to, else with its value."""
        storage = LocalStorage(self.output / job)
        self.running.discard(job)
        is_stopped = history.is_stop_asked(storage)
        history.write_result(
            storage,
            JobResult(
                job=job,
                state="stopped" if is_stopped else "succeeded",
                attempts=(),
                output=storage.url,
                value=None if is_stopped else {"loss": self._loss(storage)},
                failure=STOPPED if is_stopped else None,
            ),
        )

    def _loss(self, storage: LocalStorage) -> float:
        job = history.read_job(storage)
        assert job is not None, "it was written when the job began"
        return self.loss(job.program.params)
