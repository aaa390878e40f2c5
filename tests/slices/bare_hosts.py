"""Hosts of a job without a runner: each is a process with its own environment, as the host runner starts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Env, Event, Scratch
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan

PROGRAM = Path(__file__).with_name("training_program.py")
PATIENCE = 200.0  # seconds until a host is given up; a start takes some on a busy machine


@dataclass
class Hosts:
    """The processes of one attempt, or a single one outside a job."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def scratch(self, host: int) -> Path:
        return self.folder / f"host-{host}"

    def progress(self, host: int) -> dict[str, Any]:
        path = self.scratch(host) / Scratch.PROGRESS
        return contract.read_json(path.read_bytes(), "progress") if path.exists() else {"step": None}

    def events(self, host: int, name: Event) -> list[dict[str, Any]]:
        lines = (self.scratch(host) / Scratch.EVENTS).read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def log(self, host: int) -> str:
        return (self.scratch(host) / "log").read_text()

    def wait_for_step(self, step: int, host: int = 0) -> None:
        wait_until(lambda: (self.progress(host)["step"] or -1) >= step, f"step {step} of host {host}", self)

    def outcomes(self) -> list[dict[str, Any]]:
        """What each host left behind; all have ended then."""
        found = []
        for host, process in enumerate(self.processes):
            process.wait(PATIENCE)
            path = self.scratch(host) / "outcome"
            assert path.exists(), f"host {host} ended with {process.returncode}: {self.log(host)}"
            found.append(json.loads(path.read_text()))
        return found

    def values(self) -> list[dict[str, Any]]:
        outcomes = self.outcomes()
        assert all("value" in outcome for outcome in outcomes), [outcomes, *map(self.log, range(len(outcomes)))]
        return [outcome["value"] for outcome in outcomes]


def wait_until(is_true: Callable[[], bool], what: str, hosts: Hosts) -> None:
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end, f"{what} did not come: {[hosts.log(i) for i in range(len(hosts.processes))]}"
        assert all(p.poll() is None for p in hosts.processes), f"before {what}: {hosts.outcomes()}"
        time.sleep(0.02)  # polling, with an end above


class Slice:
    """Starts attempts of one job on hosts that are processes of this machine."""

    def __init__(self, folder: Path, program: Path = PROGRAM) -> None:
        self.folder, self.program = folder, program
        self.output = folder / "out" / "job"
        self.attempt = 0
        self.started: list[Hosts] = []
        self.programs: dict[int, Path] = {}  # what single hosts run instead of the usual one

    def plan(self, hosts: int, devices: int, **changes: Any) -> HostPlan:
        self.attempt += 1
        plan = HostPlan(
            job="job",
            attempt=self.attempt,
            accelerator=f"cpu-{hosts}x{devices}",
            output=str(self.output),
            hosts=hosts,
            devices_per_host=devices,
            platform="cpu",
            coordinator=f"127.0.0.1:{free_port()}",
            addresses=("127.0.0.1",) * hosts,
            program=Program(kind="module", target="training_program:main"),
            checkpoint_every=600.0,
            grace=30.0,
            orphan_after=60.0,
            join_timeout=150.0,
            python=sys.executable,
        )
        return replace(plan, **changes)

    def start(
        self, plan: HostPlan, case: str, *, devices: int | None = None, only: int | None = None, **kw: Any
    ) -> Hosts:
        hosts = self._new_hosts(plan.hosts if only is None else 1)
        path = hosts.folder / "plan.json"
        path.write_bytes(plan.to_json())
        for process, host in enumerate(range(plan.hosts) if only is None else [only]):
            env = {
                "JAX_PLATFORMS": {"tpu": "tpu,cpu"}.get(plan.platform, "cpu"),
                Env.PLAN: str(path),
                Env.HOST: str(host),
                Env.SCRATCH: str(hosts.scratch(process)),
                Env.RUNNER: str(os.getpid()),
                Env.STARTED: str(time.monotonic()),
            }
            self._spawn(hosts, process, devices or plan.devices_per_host, env, case, kw)
        return hosts

    def start_outside(self, case: str, *, devices: int = 1, **kw: Any) -> Hosts:
        hosts = self._new_hosts(1)
        self._spawn(hosts, 0, devices, {}, case, kw)
        return hosts

    def start_peers(self, environments: list[dict[str, str]], case: str, **kw: Any) -> Hosts:
        """Processes that another launcher started, as their environments say."""
        hosts = self._new_hosts(len(environments))
        for process, env in enumerate(environments):
            self._spawn(hosts, process, 1, {"JAX_PLATFORMS": "cpu", **env}, case, kw)
        return hosts

    def _new_hosts(self, count: int) -> Hosts:
        hosts = Hosts(self.folder / f"start-{len(self.started)}")
        for host in range(count):
            hosts.scratch(host).mkdir(parents=True)
        self.started.append(hosts)
        return hosts

    def _spawn(self, hosts: Hosts, host: int, devices: int, env: dict[str, str], case: str, kw: dict[str, Any]) -> None:
        scratch = hosts.scratch(host)
        with open(scratch / "log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(self.programs.get(host, self.program)), case, json.dumps(kw)],
                env={
                    **os.environ,
                    "JAX_NUM_CPU_DEVICES": str(devices),
                    "OUTCOME": str(scratch / "outcome"),
                    **env,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )
        hosts.processes.append(process)

    def seals(self, attempt: int) -> list[int]:
        folder = self.output / layout.checkpoints(attempt)
        return sorted(int(path.name.split(".")[0]) for path in folder.glob("*.sealed.json"))

    def end(self) -> None:
        for process in (process for hosts in self.started for process in hosts.processes):
            if process.poll() is None:
                process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def slice_(tmp_path: Path) -> Iterator[Slice]:
    made = Slice(tmp_path)
    yield made
    made.end()
