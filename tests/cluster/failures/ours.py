"""A job of ours, driven by the launcher, and what was known when each attempt was closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from case import HOSTS, STAY, Case
from driven import to_its_end
from stage import Stage

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.backends.base import Handle
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_watch import Watching
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.state import Observation
from prefect_tpu.infra.storage import Storage, open_storage

JOB = "train"
FIRST, SECOND = layout.attempt_name(JOB, 1), layout.attempt_name(JOB, 2)
PROGRAMS = Path(__file__).parent / "programs" / "failing.py"
SAVED_STEP = 5

# Every attempt after the first has nothing more to do.
_SCRIPT = """
[ "${{PREFECT_TPU_ATTEMPT##*/}}" = 1 ] || exit 0
trap 'exit 0' TERM
touch {up}-$PREFECT_TPU_HOST
if [ "$PREFECT_TPU_HOST" = 1 ]; then
  until [ -e {strike} ]; do sleep 0.1 & wait $!; done
  {act}
fi
{stay}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The moment at which the launcher had its verdict on an attempt.

    lasting: seconds of each symptom, by its kind and what it is about. outputs: host → file → content.
    """

    at: float
    attempt: int
    seen: Observation | None
    lasting: Mapping[tuple[str, str], float]
    outputs: dict[str, dict[str, object]]


class Watched(JobSetBackend):
    """The backend itself, which also writes down what passes through it."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self.seen: dict[int, Observation] = {}
        self.closings: list[Closing] = []
        self.stops: list[int] = []
        self._watches: dict[int, Watching] = {}

    def watching(self, cluster: Kubernetes, target: Target) -> Watching:
        self._watches[target.attempt] = super().watching(cluster, target)
        return self._watches[target.attempt]

    async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        async with aclosing(super().observe(handle)) as snapshots:
            async for seen in snapshots:
                self.seen[seen.attempt] = seen
                yield seen

    async def stop(self, handle: Handle) -> None:
        self.stops.append(int(handle["attempt"]))
        await super().stop(handle)

    async def forget(self, handle: Handle) -> None:
        number = int(handle["attempt"])
        watch = self._watches.get(number)
        self.closings.append(
            Closing(
                at=time.monotonic(),
                attempt=number,
                seen=self.seen.get(number),
                lasting=watch.lasting if watch else {},
                outputs=_outputs(self._storage, number),
            )
        )
        await super().forget(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """How a job went."""

    job: SliceJob
    result: JobResult
    closings: list[Closing]
    stops: list[int]


def job(stage: Stage, case: Case) -> tuple[SliceJob, Storage]:
    """The job, its code laid down."""
    volumes = {str(stage.folder): f"gs://{stage.name}", **case.pods.get("volumes", {})}
    room = {"cpu": "10m", "memory": "1Gi"}
    pods = {"image": "pod-python", "python": "python", "namespace": stage.name, "node_selector": stage.selector}
    settings = {"backend": "jobset", "grace": 5.0, "stall_timeout": None, "provision_timeout": 200.0, **case.settings}
    output = str(stage.folder / "jobs")
    is_command = not case.function
    request = Request(
        name=JOB,
        program="sh" if is_command else f"{PROGRAMS}:{case.function}",
        accelerators=(case.accelerator,),
        output=output,
        arguments=("-c", _script(stage, case)) if is_command else (),
        params={} if is_command else {"strike": str(stage.strike_file(FIRST))},
        settings={**settings, "pods": PodSettings(**{**pods, **room, **case.pods, "volumes": volumes})},
    )
    asked, storage = prepare(request), open_storage(output).inside(JOB)
    _save_a_step(storage)
    if case.spoil:
        _spoil_code(storage)
    return asked, storage


def drive(job: SliceJob, storage: Storage) -> Driven:
    """To its end, in this thread."""
    backend = Watched(storage)
    result = asyncio.run(to_its_end(job, storage, backend))
    return Driven(job=job, result=result, closings=backend.closings, stops=backend.stops)


def _script(stage: Stage, case: Case) -> str:
    return _SCRIPT.format(
        up=stage.folder / f"up-{FIRST}",
        strike=stage.strike_file(FIRST),
        act=case.act.format(folder=stage.folder),
        stay=STAY,
    )


def _save_a_step(storage: Storage) -> None:
    """As any job of some minutes has: then a disruption costs nothing, and the next attempt begins at once."""
    storage.put_if_absent(f"{layout.checkpoints(1)}/{SAVED_STEP}/data", b"x")
    content = {"attempt": 1, "step": SAVED_STEP, "files": {"data": 1}, "crc32": {}}
    storage.put_if_absent(layout.checkpoint_seal(1, SAVED_STEP), contract.write_json(content))


def _spoil_code(storage: Storage) -> None:
    for name in storage.list("payload"):
        storage.put(name, (storage.get(name) or b"") + b"x")


def _outputs(storage: Storage, attempt: int) -> dict[str, dict[str, object]]:
    """What hosts had written by now."""
    found: dict[str, dict[str, object]] = {}
    for host in range(HOSTS):
        names = {"record": layout.record(attempt, host), "progress": layout.progress(attempt, host)}
        raw = {word: storage.get(name) for word, name in names.items()}
        files: dict[str, object] = {word: contract.read_json(text, word) for word, text in raw.items() if text}
        if storage.get(layout.started(attempt, host)) is not None:
            files["started"] = True
        if files:
            found[str(host)] = files
    return found
