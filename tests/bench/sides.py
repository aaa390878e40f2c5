"""How is a job started on either side, and what does it take? One folder, one Prefect server, fresh names.

Every call of a method is one measurement of one side, in seconds.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
from program import LATE, steps_done

from prefect_tpu.infra import layout

HERE = Path(__file__).parent
TOOL = str(Path(sys.executable).with_name("prefect-tpu"))
HOSTS = 2
ACCELERATOR = f"cpu-{HOSTS}x1"
WIDTH = 512  # of the network: some 80 ms a step on two cores
LOOK_SECONDS = 0.01
T = TypeVar("T")
PATIENCE = 300.0
SAVED_EACH = 1.0  # seconds between saves where a host is killed


@dataclass(frozen=True, slots=True)
class Sides:
    """Starts what is measured. `prefect`: the environment in which a running Prefect server is found."""

    folder: Path
    prefect: Mapping[str, str]
    _count: Iterator[int] = field(default_factory=itertools.count)

    # -- a whole job, from the first process to the end of the last ---------------------------------

    def train(self, steps: int) -> float:
        """`prefect_tpu.train` from a fresh interpreter, its imports included."""
        return self._seconds(self._caller(self._fresh(), steps), self._environment(self.prefect))

    def train_without_server(self, steps: int) -> float:
        """The same in a home that has never seen Prefect: it starts a server of its own."""
        home = self._fresh()
        own = {"PREFECT_HOME": str(home / "prefect"), "PREFECT_PROFILES_PATH": str(home / "profiles.toml")}
        return self._seconds(self._caller(home, steps), self._environment(own))

    def shell(self, steps: int) -> float:
        """`prefect-tpu run`, which drives without Prefect."""
        place = self._fresh()
        command = self._run(place, "program.py:main", self._params(place, steps))
        return self._seconds(command, self._environment({}))

    def bare(self, steps: int) -> float:
        """The same processes, started by a script that sets their environment and waits."""
        return self._seconds(self._bare(self._fresh(), steps), os.environ)

    # -- from the loss of a host to the next step ---------------------------------------------------

    def recovery(self, steps: int, more: int) -> float:
        """A host is killed after `steps` steps; seconds until the job does a new one."""
        place = self._fresh()
        caller = self._start(
            self._caller(place, steps + more, every=SAVED_EACH), self._environment(self.prefect), place
        )
        output = place / "jobs" / place.name
        _wait_for(lambda: _last_step(place) >= steps and any(output.glob("checkpoints/1/*.sealed.json")), "a save")
        first = _processes(place)
        began = time.time()
        _kill_host(output, attempt=1, host=HOSTS - 1)
        step = _wait_for(lambda: _first_step_of(place, but_not=first), "a step of the next attempt")
        _must_end_well(caller, place)
        return step - began

    def restart(self, saved: Path, steps: int, more: int) -> float:
        """Bare processes that go on from the checkpoint in `saved`; seconds until their first step."""
        place = self._fresh()
        shutil.copytree(saved, place, dirs_exist_ok=True)
        first = _processes(place)
        began = time.time()
        started = self._start(self._bare(place, steps + more), os.environ, place)
        step = _wait_for(lambda: _first_step_of(place, but_not=first), "a step after the restart")
        _must_end_well(started, place)
        return step - began

    def saved_by_bare(self, steps: int) -> Path:
        """A folder in which bare processes have left a checkpoint, and their compilation cache."""
        place = self._fresh()
        self._seconds(self._bare(place, steps), os.environ)
        return place

    # -- small things -------------------------------------------------------------------------------

    def job(self, program: str, **params: Any) -> Any:
        """What a program of this folder returns as a job; for what is measured from inside."""
        place = self._fresh()
        command = [*self._run(place, program, params), "--json"]
        done = subprocess.run(command, env=self._environment({}), capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])["value"]

    def training(self, steps: int, **more: Any) -> dict[str, float]:
        """What the training itself says of its steps."""
        place = self._fresh()
        found: dict[str, float] = self.job("program.py:main", **self._params(place, steps), **more)
        return found

    def step_seconds(self) -> float:
        """How long a step of the bare training takes on this machine."""
        place = self._fresh()
        self._seconds(self._bare(place, 3 * LATE), os.environ)
        times = [when for when, _, _ in steps_done(place)][LATE:]
        return (times[-1] - times[0]) / (len(times) - 1)

    def _fresh(self) -> Path:
        place = self.folder / f"bench-{next(self._count)}"
        place.mkdir()
        return place

    def _environment(self, prefect: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "XDG_DATA_HOME": str(self.folder / "data"), **prefect}

    def _params(self, place: Path, steps: int) -> dict[str, Any]:
        return {"steps": steps, "width": WIDTH, "folder": str(place)}

    def _run(self, place: Path, program: str, params: Mapping[str, Any]) -> list[str]:
        words = [f"--param={name}={json.dumps(value)}" for name, value in params.items()]
        return [TOOL, "run", str(HERE / program), "-a", ACCELERATOR, "--name", place.name,
                "--output", str(place / "jobs"), *words]  # fmt: skip

    def _caller(self, place: Path, steps: int, **more: Any) -> list[str]:
        call = {
            "program": f"{HERE / 'program.py'}:main",
            "accelerator": ACCELERATOR,
            "params": {**self._params(place, steps), **more},
            "name": place.name,
            "output": str(place / "jobs"),
        }
        return [sys.executable, "-P", str(HERE / "train_call.py"), json.dumps(call)]

    def _bare(self, place: Path, steps: int) -> list[str]:
        program = [sys.executable, "-P", str(HERE / "program.py"), json.dumps(self._params(place, steps))]
        return [sys.executable, "-P", str(HERE / "bare.py"), str(HOSTS), _port(), str(place / "cache"), *program]

    def _start(self, command: Sequence[str], environment: Mapping[str, str], place: Path) -> subprocess.Popen[bytes]:
        with (place / "log").open("wb") as log:
            return subprocess.Popen(command, env=dict(environment), stdout=log, stderr=log, cwd=place)

    def _seconds(self, command: Sequence[str], environment: Mapping[str, str]) -> float:
        place = self._fresh()
        began = time.perf_counter()
        _must_end_well(self._start(command, environment, place), place)
        return time.perf_counter() - began


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Whatever was started for `folder` has ended afterwards, also after an interrupt."""
    try:
        yield
    finally:
        for process in psutil.Process().children(recursive=True):
            process.kill()
        for process in psutil.process_iter():
            if _mark(process).startswith(str(folder)):
                process.kill()


def _mark(process: psutil.Process) -> str:
    try:
        return str(process.environ().get("PREFECT_TPU_ATTEMPT", ""))
    except psutil.Error:
        return ""


def _must_end_well(process: subprocess.Popen[bytes], place: Path) -> None:
    if process.wait(PATIENCE) != 0:
        raise SystemExit(f"{process.args} failed:\n{(place / 'log').read_text()}")


def _kill_host(output: Path, *, attempt: int, host: int) -> None:
    """As a host dies: its runner and its program at once, without a word."""
    claim = json.loads((output / layout.started(attempt, host)).read_text())
    runner = psutil.Process(claim["pid"])
    for process in (runner, *runner.children(recursive=True)):
        process.kill()


def _last_step(place: Path) -> int:
    return max((step for _, _, step in steps_done(place)), default=-1)


def _processes(place: Path) -> frozenset[int]:
    return frozenset(process for _, process, _ in steps_done(place))


def _first_step_of(place: Path, *, but_not: frozenset[int]) -> float | None:
    return next((when for when, process, _ in steps_done(place) if process not in but_not), None)


def _wait_for(look: Callable[[], T | None], what: str) -> T:
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come within {PATIENCE:.0f} s")
        time.sleep(LOOK_SECONDS)
    return found


def _port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
