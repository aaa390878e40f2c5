"""Hosts that are started as a pod starts them: from the archive, without an environment, with nothing of ours."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env, HostRecord
from prefect_tpu.infra.host.assignment import INDEX
from prefect_tpu.infra.host_archive import FILE, host_archive
from prefect_tpu.infra.packing import Packed, pack
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import Storage, open_on_host

# The interpreter behind this environment: it has the standard library and nothing of what is installed here.
BARE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))


@dataclass
class Pod:
    """One host's container, as far as a process can be one."""

    popen: subprocess.Popen[bytes]
    folder: Path
    plan: HostPlan

    @property
    def out(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "stderr").read_text()

    @property
    def last_words(self) -> HostRecord:
        """As Kubernetes would tell them."""
        return HostRecord.from_json((self.folder / "termination-log").read_bytes())

    def wait(self) -> int:
        return self.popen.wait(60)


@dataclass
class Pods:
    """The pods of jobs in one output that they and their launcher see, on disks of their own.

    output: of all jobs; a folder of this test where none is named.
    """

    folder: Path
    make_plan: Callable[..., HostPlan]
    output: str = ""
    python: str = BARE_PYTHON
    started: list[Pod] = field(default_factory=list)

    @property
    def storage(self) -> Storage:
        return open_on_host(f"{self.output or self.folder / 'out'}/digits")

    def send(self, program: str | Packed, hosts: int = 1, **changes: Any) -> HostPlan:
        """A plan for a program, or for the text of one with a function `main`, in its place."""
        packed = self.pack(program) if isinstance(program, str) else program
        packed.send(self.storage)
        values = {
            "output": self.storage.url,
            "program": packed.program,
            "scratch": str(self.folder / "disk"),
            "backend": "jobset",
            "orphan_after": None,
            "devices_per_host": 1,
            "python": "python3",
        }
        plan = self.make_plan(hosts, **{**values, **changes})
        self.storage.put(layout.plan(plan.attempt), plan.to_json())
        return plan

    def pack(self, text: str) -> Packed:
        source = self.folder / "source" / "program.py"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        return pack(f"{source}:main", {}, ())

    def start(self, plan: HostPlan, host: int = 0, *before: str, **environment: str) -> Pod:
        folder = self.folder / f"pod-{len(self.started)}"
        mount, home = folder / "mount", folder / "home"
        for place in (mount, home):
            place.mkdir(parents=True)
        (mount / FILE).write_bytes(host_archive().raw)
        (folder / "termination-log").touch()
        own = {
            Env.ATTEMPT: plan.mark,
            Env.SLICE: str(host // plan.hosts_per_slice),
            INDEX: str(host % plan.hosts_per_slice),
            Env.TERMINATION_LOG: str(folder / "termination-log"),
        }
        for place in (mount, home):
            place.chmod(0o555)
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            popen = subprocess.Popen(
                [*before, self.python, str(mount / FILE), self.storage.where(layout.plan(plan.attempt))],
                env={**own, **environment},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(Pod(popen, folder, plan))
        return self.started[-1]

    def record(self, host: int = 0) -> HostRecord:
        raw = self.storage.get(layout.record(3, host))
        assert raw is not None, f"host {host} left no record"
        return HostRecord.from_json(raw)


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    return find


@pytest.fixture
def pods(tmp_path: Path, make_plan: Callable[..., HostPlan]) -> Iterator[Pods]:
    pods = Pods(tmp_path, make_plan)
    yield pods
    for pod in pods.started:
        pod.popen.send_signal(signal.SIGKILL)
        pod.popen.wait()
