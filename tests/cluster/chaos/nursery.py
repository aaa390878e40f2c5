"""Drivers, started quickly: what they import is imported once, and each is a fork of that.

As a program it reads one JSON object a line and answers each with one: `{"begin": …}` with the process id of a fork
that drives a job as `tests/programs/drive.py` does, `{"ended": pid}` with how it ended, or null while it has not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One driver. pid: of its process. said: the file of its news; told: that of its result."""

    nursery: Nursery
    pid: int
    said: Path
    told: Path

    def kill(self) -> None:
        os.kill(self.pid, 9)

    def wait(self, seconds: float) -> int:
        """Its exit code, negative for a signal."""
        end = time.monotonic() + seconds
        while (code := self.nursery.ask({"ended": self.pid})) is None:
            assert time.monotonic() < end, f"a driver did not end within {seconds:.0f} s:\n{self.said.read_text()}"
            time.sleep(LOOK_SECONDS)
        return int(code)

    def result(self) -> dict[str, Any]:
        """What it printed last."""
        return json.loads(self.told.read_text().splitlines()[-1])  # type: ignore[no-any-return]


class Nursery:
    """Asked by several threads, one question at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder
        self._lock = threading.Lock()
        self._born = 0

    def begin(self, job: Path, folder: str, environment: Mapping[str, str]) -> Life:
        with self._lock:
            self._born += 1
            place = self._folder / f"life-{self._born}"
        said, told = place.with_suffix(".err"), place.with_suffix(".out")
        asked = {"job": str(job), "folder": folder, "environment": dict(environment)}
        pid = self.ask({"begin": {**asked, "said": str(said), "told": str(told)}})
        return Life(nursery=self, pid=pid, said=said, told=told)

    def ask(self, question: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@contextmanager
def nursery(folder: Path) -> Iterator[Nursery]:
    """Gone at the end; so are its drivers, which have ended by then."""
    process = subprocess.Popen(
        [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield Nursery(process, folder)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def main() -> None:
    sys.path.append(str(PROGRAMS))  # tests are no package
    _import_all()
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of a process with threads may hang"
    for line in sys.stdin:
        question = json.loads(line)
        answer = _begin(question["begin"]) if "begin" in question else _ended(question["ended"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _import_all() -> None:
    """What takes long, and what a driver comes to only later."""
    import drive  # noqa: F401
    import google.cloud.container_v1
    import google.cloud.storage  # noqa: F401

    import prefect_tpu.infra.backends.jobset
    import prefect_tpu.infra.gcp.connection
    import prefect_tpu.infra.gcp.gke_access
    import prefect_tpu.infra.gcp.kubeconfig
    import prefect_tpu.infra.gcp.node_pools  # noqa: F401


def _begin(asked: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _drive(asked)
    finally:
        os._exit(code)


def _drive(asked: Mapping[str, Any]) -> int:
    from drive import main as drive

    os.setsid()
    os.environ.update(asked["environment"])
    sys.stdin.close()
    with open(asked["told"], "w") as told, open(asked["said"], "w") as said:
        sys.stdout, sys.stderr = told, said
        try:
            drive(asked["job"], asked["folder"])
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            told.flush()
            said.flush()
    return 0


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    main()
