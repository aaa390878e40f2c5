"""A `tpu-slice` pool of these tests: runs on this machine, and worker processes that may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from prefect_server import PREFECT, Server, kill_tree, wait_for

from prefect_tpu.flows.work_pool.worker import TpuSliceWorker
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env

FLOWS = Path(__file__).parent / "reconciled_flows.py"
SLICES = "8"
Run = dict[str, Any]


@dataclass(slots=True)
class SliceWorkerPool:
    """The pool, its folder, and whoever serves it."""

    server: Server
    folder: Path
    name: str = field(default_factory=lambda: f"tpu-{uuid4().hex[:6]}")
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        own = {"XDG_DATA_HOME": str(self.folder / "data"), Env.OUTPUT: str(self.folder / "jobs"), Env.SLICES: SLICES}
        return {**self.server.environment, **own}

    def create(self) -> None:
        template = TpuSliceWorker.get_default_base_job_template()
        self.server.ask("/work_pools/", name=self.name, type="tpu-slice", base_job_template=template)

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """One more, whose hosts outlive it."""
        number = len(self.workers)
        command = [*PREFECT, "worker", "start", "--type", "tpu-slice", "--pool", self.name, "--name", f"w{number}"]
        with (self.folder / f"worker-{number}.log").open("wb") as log:
            worker = subprocess.Popen(
                command, env={**self.environment, **environment}, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.workers.append(worker)
        return worker

    def told(self) -> str:
        return "\n".join(path.read_text()[-6000:] for path in self.folder.glob("worker-*.log"))

    def run(self, **variables: Any) -> Run:
        """A run of a deployment of its own, due now."""
        flow = self.server.ask("/flows/", name="hold")["id"]
        made = self.server.ask(
            "/deployments/", name=uuid4().hex, flow_id=flow, work_pool_name=self.name, path=str(FLOWS.parent),
            entrypoint=f"{FLOWS.name}:hold", parameters={"folder": str(self.folder)},
            job_variables={"accelerator": "cpu", "grace": 2, **variables},
        )  # fmt: skip
        started: Run = self.server.ask(f"/deployments/{made['id']}/create_flow_run", state={"type": "SCHEDULED"})
        return started

    def now(self, run: Run) -> Run:
        found: Run = self.server.ask(f"/flow_runs/{run['id']}")
        return found

    def states(self, run: Run) -> list[tuple[str, str, str]]:
        """(type, name, message) of all that the run has been in, oldest first."""
        found = self.server.ask(f"/flow_run_states/?flow_run_id={run['id']}")
        in_order = sorted(found, key=lambda state: str(state["timestamp"]))
        return [(state["type"], state["name"], state["message"] or "") for state in in_order]

    def wait_for_state(self, run: Run, *types: str) -> Run:
        def look() -> Run | None:
            state: Run = self.now(run)["state"]
            return state if state["type"] in types else None

        return wait_for(look, f"{' or '.join(types)} of {run['name']}: {self.now(run)['state']}")

    def wait_until_begun(self, run: Run, times: int = 1) -> None:
        place = self.folder / run["name"]
        wait_for((place / f"began-{times}").exists, f"start {times} of {run['name']}")
        self.wait_for_state(run, "RUNNING")

    def let_go_on(self, run: Run) -> None:
        (self.folder / run["name"]).mkdir(exist_ok=True)
        (self.folder / run["name"] / "go").touch()

    def job(self, run: Run) -> Path:
        """The folder of the run's job."""
        return Path(wait_for(lambda: self.now(run)["infrastructure_pid"], f"the job of {run['name']}"))

    def processes(self, run: Run) -> list[psutil.Process]:
        """All that live of any attempt of the run's job."""
        return self.processes_of(self.job(run))

    def processes_of(self, job: Path) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if _attempt(process).startswith(f"{job}/")]

    def runner(self, run: Run, host: int = 0) -> psutil.Process:
        """What a host is: the process that starts its program."""

        def look() -> psutil.Process | None:
            found = self.processes(run)
            parents = {process.pid for process in found}
            roots = [process for process in found if process.ppid() not in parents]
            return next((root for root in roots if root.environ().get(Env.HOST, str(host)) == str(host)), None)

        return wait_for(look, f"host {host} of {run['name']}")

    def wait_until_gone(self, run: Run) -> None:
        wait_for(lambda: not self.processes(run), f"the end of all processes of {run['name']}")
        wait_for((self.job(run) / layout.RESULT).exists, f"the end of the job of {run['name']}")


def _attempt(process: psutil.Process) -> str:
    try:
        is_live = process.status() != psutil.STATUS_ZOMBIE
        return process.environ().get(Env.ATTEMPT, "") if is_live else ""
    except psutil.Error:
        return ""


@contextmanager
def slice_worker_pool(server: Server, folder: Path) -> Iterator[SliceWorkerPool]:
    """Nothing of it lives afterwards."""
    pool = SliceWorkerPool(server=server, folder=folder)
    pool.create()
    try:
        yield pool
    finally:
        for worker in pool.workers:
            if worker.poll() is None:
                kill_tree(worker)
        for process in psutil.process_iter():
            if _attempt(process).startswith(f"{folder}/"):
                process.kill()


def kill(worker: subprocess.Popen[bytes]) -> None:
    """At once; what it has not written down is lost. Its hosts are no children of its session's end."""
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
