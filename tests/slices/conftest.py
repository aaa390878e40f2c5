"""A job that a test lays down, drives in processes of its own, and looks at."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import LocalStorage

PROGRAMS = Path(__file__).parents[1] / "programs"


@dataclass(frozen=True)
class Job:
    """One job on a machine of a test's own."""

    machine: Any
    job: SliceJob

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.machine.output / self.job.name)

    @property
    def is_counting(self) -> bool:
        """Whether every host has done a step."""
        return all((self.storage.root / f"counter/state-{host}.json").exists() for host in (0, 1))

    def drive(self) -> Any:
        """A process that drives the job to its end."""
        path = self.machine.folder / f"{self.job.name}.json"
        path.write_bytes(self.job.to_json())
        return self.machine.start(sys.executable, "-P", PROGRAMS / "drive.py", path, self.storage.root)

    def go_on(self) -> None:
        """Let a program go on that holds."""
        for name in ("counter/go", "go"):
            self.storage.put(name, b"")

    def runner(self, host: int, attempt: int = 1) -> psutil.Process:
        return psutil.Process(json.loads(self.storage.get(layout.started(attempt, host)) or b"")["pid"])


@pytest.fixture(scope="session")
def saver() -> ModuleType:
    """The program of that name, to ask it what its numbers must be."""
    spec = importlib.util.spec_from_file_location("saver", PROGRAMS / "saver.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_job(machine: Any) -> Callable[..., Job]:
    return lambda program, params, **settings: lay_down(machine, program, params, **settings)


@pytest.fixture(scope="session")
def lay_down_on() -> Callable[..., Job]:
    return lay_down


def lay_down(
    machine: Any, program: str, params: dict[str, Any], *, name: str = "job", on: str = "cpu-2x1", **settings: Any
) -> Job:
    """A job of a program of `tests/programs`, with its code in its folder."""
    request = Request(
        name=name,
        program=str(PROGRAMS / program),
        accelerators=(on,),
        output=str(machine.output),
        params=params,
        settings=settings,
    )
    return Job(machine, prepare(request))
