"""Jobs under drills: laid down, run again whenever a drill has ended their driver, and what they left."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.backends.local_slices import LocalSlices, SliceLock
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher.history import attempt_numbers
from prefect_tpu.infra.places import data_folder
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.summary import drills_without_effect

sys.path.append(str(Path(__file__).parent))  # tests are no package; `foresight` is for this folder

PROGRAMS = Path(__file__).parents[1] / "programs"
LONGEST_SECONDS = 300.0
_starting = threading.Lock()  # a machine counts its processes


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a drilled job ended.

    deaths: how often its driver was killed. without_effect: drills that came to nothing, a sentence each.
    traces: what no end may leave.
    """

    result: dict[str, Any]
    deaths: int
    said: str
    without_effect: tuple[str, ...]
    traces: tuple[str, ...]

    @property
    def attempts(self) -> list[tuple[str, int | None, str]]:
        """(outcome, host, accelerator) of each."""
        return [
            (a["outcome"], a["failure"]["host"] if a["failure"] else None, a["accelerator"])
            for a in self.result["attempts"]
        ]

    @property
    def failure(self) -> tuple[str, int | None] | None:
        found = self.result["failure"]
        return found and (found["kind"], found["host"])

    def __str__(self) -> str:
        return f"{json.dumps(self.result, indent=1)}\ndrivers killed: {self.deaths}\n{self.said}"


def play(machine: Any, request: dict[str, Any], *, slices: int = 1, folder: str = "lockstep") -> End:
    """Run one job to its end: the same command again, as often as a drill has killed it."""
    asked = Request(output=str(machine.output), **request)
    path = machine.folder / f"{asked.name}.json"
    path.write_bytes(prepare(asked).to_json())
    job, said = machine.output / asked.name, []
    while True:
        with _starting:
            command = (sys.executable, "-P", PROGRAMS / "drive.py", path, job)
            driver = machine.start(*command, PREFECT_TPU_LOCAL_SLICES=str(slices))
        code = driver.wait(LONGEST_SECONDS)
        said.append(driver.err)
        if code != -signal.SIGKILL or len(said) > len(asked.settings["drills"]):
            break
    result = driver.result()
    return End(
        result=result,
        deaths=len(said) - 1,
        said="---\n".join(said),
        without_effect=tuple(drills_without_effect(JobResult.from_json(result))),
        traces=tuple(traces(job, folder)),
    )


def traces(job: Path, folder: str) -> list[str]:
    """Attempts that were lost, doubled or alive at the same time as others."""
    storage, found = LocalStorage(job), []
    numbers = attempt_numbers(storage)
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(f"the attempts are numbered {numbers}")
    found += [f"attempt {n} has no outcome" for n in numbers if storage.get(layout.outcome(n)) is None]
    if (job / folder / "overlaps").exists():
        found.append((job / folder / "overlaps").read_text())
    lives = job / folder / "lives.jsonl"
    events = [json.loads(line) for line in lives.read_text().splitlines()] if lives.exists() else []
    begun = Counter((event["attempt"], event["host"]) for event in events if event["event"] == "began")
    found += [f"host {host} of attempt {n} began {times} times" for (n, host), times in begun.items() if times > 1]
    return found


def taken_slices(machine: Any, count: int) -> list[int]:
    """Slices of the machine that somebody still has."""
    slices = LocalSlices(data_folder(machine.environment) / "slices", count)
    taken = [slices.take("test") for _ in range(count)]
    free = [lock for lock in taken if isinstance(lock, SliceLock)]
    for lock in free:
        slices.give_back(lock)
    return sorted(set(range(count)) - {lock.number for lock in free})


def taken_ports(machine: Any) -> list[int]:
    """Ports of the machine's attempts on which somebody still listens."""
    plans = [contract.read_json(path.read_bytes(), "plan") for path in machine.output.glob("*/attempts/*/plan.json")]
    ports = {int(plan["coordinator"].rpartition(":")[2]) for plan in plans}
    return [port for port in sorted(ports) if _is_listened_to(port)]


def _is_listened_to(port: int) -> bool:
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in lines)


@pytest.fixture(scope="session")
def play_on() -> Callable[..., End]:
    return play


@pytest.fixture(scope="session")
def left_on() -> Callable[[Any, int], dict[str, list[Any]]]:
    """What of its jobs is left on a machine of so many slices."""
    return lambda machine, slices: {
        "processes": machine.left(),
        "slices": taken_slices(machine, slices),
        "ports": taken_ports(machine),
    }
