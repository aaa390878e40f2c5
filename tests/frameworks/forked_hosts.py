"""Attempts of a job on forks of one process of the frameworks' environment, and what the tests ask of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path.append(str(Path(__file__).parents[1] / "slices"))  # tests are no package; hosts without a runner are theirs

from bare_hosts import PATIENCE, Hosts, Slice  # noqa: E402

from prefect_tpu.infra import layout, seals  # noqa: E402
from prefect_tpu.infra.plan import HostPlan, RestorePoint  # noqa: E402
from prefect_tpu.infra.storage import LocalStorage  # noqa: E402

FORKS = Path(__file__).with_name("forks.py")


class ForkedHosts(Hosts):
    """The forks of one attempt."""

    def outcome(self, host: int) -> dict[str, Any]:
        """What one host left behind, while others may go on."""
        self.processes[host].wait(PATIENCE)
        path = self.scratch(host) / "outcome"
        assert path.exists(), f"host {host} ended with {self.processes[host].returncode}: {self.log(host)}"
        found: dict[str, Any] = json.loads(path.read_text())
        return found


class Fork:
    """A host's process, which is its fork's child and not ours: as much of `subprocess.Popen` as is asked of it."""

    def __init__(self, pid: int, forks: Forks) -> None:
        self.pid, self._forks = pid, forks

    @property
    def returncode(self) -> int | None:
        return self._forks.ends.get(self.pid)

    def poll(self) -> int | None:
        self._forks.listen(0)
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        end = time.monotonic() + timeout
        while self.returncode is None:
            assert time.monotonic() < end, f"process {self.pid} has not ended within {timeout:g} s"
            self._forks.listen(0.1)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass
class Forks:
    """The process that makes them."""

    process: subprocess.Popen[bytes]
    ends: dict[int, int] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    _rest: bytes = b""

    @classmethod
    def of(cls, python: Path, programs: str, folder: Path) -> Forks:
        path = os.pathsep.join([str(FORKS.parent), os.environ.get("PYTHONPATH", "")])
        with open(folder / "forks.log", "wb") as log:
            process = subprocess.Popen(
                [python, FORKS, programs],
                env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        return cls(process)

    def fork(self, asked: dict[str, Any]) -> Fork:
        assert self.process.stdin is not None
        before = len(self.started)
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        end = time.monotonic() + PATIENCE
        while len(self.started) == before:
            assert time.monotonic() < end and self.process.poll() is None, "no host could be forked"
            self.listen(0.1)
        return Fork(self.started[-1], self)

    def listen(self, seconds: float) -> None:
        """Take in what was said, for so long at most."""
        import select

        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], seconds)[0]:
            raw = os.read(self.process.stdout.fileno(), 65536)
            *lines, self._rest = (self._rest + raw).split(b"\n")
            for said in map(json.loads, lines):
                if "started" in said:
                    self.started.append(said["started"])
                elif "ended" in said:
                    self.ends[said["ended"]] = said["code"]
            seconds = 0
            if not raw:
                return

    def end(self) -> None:
        for child in psutil.Process(self.process.pid).children(recursive=True):
            child.kill()
        self.process.kill()
        self.process.communicate()


class ForkedSlice(Slice):
    """As `Slice`; its hosts are forks."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        super().__init__(folder)
        self._forks = forks

    def _spawn(self, hosts: Hosts, host: int, devices: int, env: dict[str, str], case: str, kw: dict[str, Any]) -> None:
        scratch = hosts.scratch(host)
        asked = {
            "case": case,
            "keywords": kw,
            "environment": {**os.environ, **env},
            "folder": str(scratch),
            "log": str(scratch / "log"),
            "outcome": str(scratch / "outcome"),
        }
        hosts.processes.append(self._forks.fork(asked))  # type: ignore[arg-type]

    def start_launched(self, case: str, environments: list[dict[str, str]]) -> Hosts:
        """Outside a job, with these words for each process."""
        hosts = self._new_hosts(len(environments))
        for process, environment in enumerate(environments):
            self._spawn(hosts, process, 1, environment, case, {})
        return hosts

    def _new_hosts(self, count: int) -> ForkedHosts:
        made = super()._new_hosts(count)
        self.started[-1] = forked = ForkedHosts(made.folder)
        return forked

    def newest(self) -> RestorePoint:
        found = seals.newest_whole(LocalStorage(self.output / layout.CHECKPOINTS))
        assert found is not None, "nothing was saved"
        return found

    def plan(self, hosts: int, devices: int = 1, **changes: Any) -> HostPlan:
        return super().plan(hosts, devices, **{"backend": "local", **changes})


def wait_for(is_true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)  # polling, with an end above
