"""Decorated flows against a real Prefect server, on slices of this machine: how each way to run one ends."""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from prefect_server import PATIENCE, PREFECT, Server, running, wait_for

from prefect_tpu.flows.work_pool.template import base_job_template
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]
PROGRAM = Path(__file__).parent / "decorated_calls.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody at a machine of their own: one slice, an output, and Prefect's home."""

    server: Server
    folder: Path
    pool: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        own = {"XDG_DATA_HOME": str(self.folder / "data"), Env.OUTPUT: str(self.folder / "jobs"), Env.SLICES: "3"}
        return {**self.server.environment, **own, "POOL": self.pool}

    def start(self, what: str, program: Path = PROGRAM) -> subprocess.Popen[str]:
        with (self.folder / "errors.log").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", str(program), what, str(self.folder)], env=self.environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def outcome(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        said, _ = process.communicate(timeout=3 * PATIENCE)
        lines = said.splitlines()
        assert lines, (self.folder / "errors.log").read_text()[-5000:]
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def does(self, what: str, program: Path = PROGRAM) -> dict[str, Any]:
        return self.outcome(self.start(what, program))

    def notes(self, what: str) -> list[tuple[int, int]]:
        """(process, run count) of each time that the flow said so."""
        path = self.folder / "notes"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(int(pid), int(count)) for word, pid, count in lines if word == what]

    def wait_for_note(self, what: str, times: int = 1) -> list[tuple[int, int]]:
        return wait_for(lambda: n if len(n := self.notes(what)) >= times else None, f"{times} × {what}")

    def let_go_on(self) -> None:
        (self.folder / "go").touch()

    def job(self) -> LocalStorage:
        """The folder of its only job."""
        (job,) = [path.parent for path in (self.folder / "jobs").glob(f"*/{layout.JOB}")]
        return LocalStorage(job)

    def run(self) -> dict[str, Any]:
        """The run of its only job, as Prefect knows it."""
        (run,) = [
            r for r in self.server.ask("/flow_runs/filter", limit=200) if r["infrastructure_pid"] == self.job().url
        ]
        return dict(run)

    def processes(self) -> list[psutil.Process]:
        """All live ones of its jobs, and those that see to its runs."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            is_live = process.status() != psutil.STATUS_ZOMBIE
            return is_live and process.environ().get("XDG_DATA_HOME") == str(self.folder / "data")
        except psutil.Error:
            return False

    def wait_until_gone(self) -> None:
        wait_for(lambda: not self.processes(), "the end of all processes")


@pytest.fixture
def caller(server: Server, tmp_path: Path) -> Iterator[Caller]:
    """With a pool that nobody has set up for flows that travel."""
    caller = Caller(server=server, folder=tmp_path, pool=f"slices-{uuid4().hex[:8]}")
    server.ask("/work_pools/", name=caller.pool, type="tpu-slice", base_job_template=base_job_template())
    yield caller
    for process in caller.processes():
        process.kill()
    for started in caller.started:
        started.wait()
        if started.stdout is not None:
            started.stdout.close()


def runner_of(process: int) -> psutil.Process:
    """The runner of the host on which the flow runs."""
    family = psutil.Process(process).parents()
    return next(parent for parent in family if "prefect_tpu.infra.host" in parent.cmdline())


def test_a_call_waits_and_returns_what_the_flow_returns(caller: Caller) -> None:
    assert caller.does("call") == {"value": 42}
    run, job = caller.run(), caller.job()
    assert (run["state"]["type"], run["run_count"], run["deployment_id"]) == ("COMPLETED", 1, None)
    assert run["job_variables"]["accelerator"] == "cpu-2x1"
    caller.wait_until_gone()  # also what saw to the run, once the job has its end
    end = history.read_result(job)
    assert end is not None and end.state == "succeeded"


def test_the_state_is_returned_where_it_is_asked_for(caller: Caller) -> None:
    assert caller.does("state") == {"value": "COMPLETED"}


def test_what_was_submitted_goes_on_without_the_caller(caller: Caller) -> None:
    run = caller.does("leave")["value"]
    caller.wait_for_note("began")
    caller.let_go_on()
    assert caller.server.wait_for_end({"id": run, "name": "left"})["type"] == "COMPLETED"
    caller.wait_until_gone()


@pytest.mark.long
def test_a_worker_of_the_pool_takes_what_is_left_to_it(caller: Caller) -> None:
    command = [*PREFECT, "worker", "start", "--type", "tpu-slice", "--pool", caller.pool]
    with running(command, caller.environment, caller.folder, "worker"):
        assert caller.does("leave_to_worker") == {"value": 42}


def test_what_the_flow_raises_is_raised_at_the_caller(caller: Caller) -> None:
    assert caller.does("wrong") == {"error": "Wrong", "message": "the first time"}


@pytest.mark.long
def test_a_run_that_failed_is_retried_and_computes_nothing_twice(caller: Caller) -> None:
    outcome = caller.does("again")
    assert "value" in outcome, outcome
    run, before, value = outcome["value"]
    assert (before, value) == ("FAILED", 22) and caller.run()["id"] == run
    assert len(caller.notes("prepared")) == 1


@pytest.mark.long
def test_a_slice_that_is_lost_is_replaced_and_the_caller_hears_nothing_of_it(caller: Caller) -> None:
    process = caller.start("wait")
    ((first, _),) = caller.wait_for_note("began")
    runner_of(first).send_signal(signal.SIGKILL)
    caller.wait_for_note("began", times=2)
    caller.let_go_on()
    assert caller.outcome(process) == {"value": 22}
    states = [state["type"] for state in caller.server.ask(f"/flow_run_states/?flow_run_id={caller.run()['id']}")]
    assert states.count("RUNNING") == 2 and states[-1] == "COMPLETED"
    assert "CRASHED" not in states  # whoever waits for a run takes its first final state for the end
    assert len(caller.notes("prepared")) == 1


@pytest.mark.long
def test_a_crash_for_good_reaches_the_caller_with_its_cause(caller: Caller) -> None:
    process = caller.start("wait_once")
    ((first, _),) = caller.wait_for_note("began")
    runner_of(first).send_signal(signal.SIGKILL)
    outcome = caller.outcome(process)
    assert outcome["error"] == "CrashedRun" and "SIGKILL" in outcome["message"], outcome
    caller.wait_until_gone()


def test_a_cancelled_run_ends_on_the_slice_and_at_the_caller(caller: Caller) -> None:
    process = caller.start("wait")
    caller.wait_for_note("began")
    caller.server.ask(f"/flow_runs/{caller.run()['id']}/set_state", state={"type": "CANCELLING"})
    assert caller.outcome(process)["error"] == "CancelledRun"
    caller.wait_until_gone()
    assert caller.run()["state"]["type"] == "CANCELLED"


@pytest.mark.long
def test_interrupting_the_call_cancels_the_run(caller: Caller) -> None:
    process = caller.start("wait")
    caller.wait_for_note("began")
    os.kill(process.pid, signal.SIGINT)
    assert caller.outcome(process)["error"] == "KeyboardInterrupt"
    assert caller.server.wait_for_end(caller.run())["type"] == "CANCELLED"
    caller.wait_until_gone()


@pytest.mark.long
def test_files_travel_with_the_flow(caller: Caller) -> None:
    program = caller.folder / PROGRAM.name
    program.write_text(PROGRAM.read_text())
    (caller.folder / "brought").mkdir()
    (caller.folder / "brought" / "word.txt").write_text("word")
    assert caller.does("bring", program) == {"value": "word"}


def test_runs_of_a_flow_are_its_children(caller: Caller) -> None:
    assert caller.does("child") == {"value": 7}
    runs = [run for run in caller.server.ask("/flow_runs/filter", limit=200) if run["infrastructure_pid"]]
    own = [run for run in runs if run["infrastructure_pid"].startswith(str(caller.folder))]
    assert len(own) == 2 and all(run["parent_task_run_id"] for run in own)


@pytest.mark.long
def test_a_region_spans_all_hosts(caller: Caller) -> None:
    assert caller.does("on_every_host") == {"value": [[0, 2, 7], [1, 2, 7]]}


def test_a_variable_that_the_pool_lacks_is_told_before_anything_is_begun(caller: Caller) -> None:
    outcome = caller.does("misspelt")
    assert outcome["error"] == "UsageError" and "has no variable 'of_ours'" in outcome["message"]
    assert not (caller.folder / "jobs").exists()


def test_no_key_of_the_server_travels(caller: Caller) -> None:
    process = subprocess.run(
        [sys.executable, "-P", str(PROGRAM), "call", str(caller.folder)],
        env={**caller.environment, "PREFECT_API_KEY": "a-key-of-mine"}, cwd=caller.folder,
        capture_output=True, text=True, timeout=3 * PATIENCE,
    )  # fmt: skip
    assert json.loads(process.stdout.splitlines()[-1]) == {"value": 42}, process.stderr
    assert b"a-key-of-mine" not in everything_below(caller.folder / "jobs")


def everything_below(folder: Path) -> bytes:
    """Of all files, and what is packed in those that carry flows."""
    found = b""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        found += path.read_bytes()
        if path.parent.name == layout.BUNDLES_FOLDER:
            bundle = json.loads(path.read_bytes())
            found += gzip.decompress(base64.b64decode(bundle["context"]))
            found += gzip.decompress(base64.b64decode(bundle["function"]))
    return found
