"""The shell command in this process, and jobs laid down with the product's own functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import HostRecord, Progress, Scratch
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.storage import Storage, open_storage


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture
def shell(output: Path, prefect_tpu: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command line against the test's own output."""
    monkeypatch.setenv("PREFECT_TPU_OUTPUT", str(output))
    return prefect_tpu


class Jobs:
    """Lays down jobs as runs would have left them."""

    def __init__(self, output: Path | str) -> None:
        self.output = output

    def storage(self, name: str) -> Any:
        return open_storage(f"{self.output}/{name}")

    def asked(self, name: str, **changes: Any) -> Storage:
        values = {"program": Program(kind="module", target="m:f", params={"steps": 60}), "accelerators": ("v6e-16",)}
        history.enter(self.storage(name), SliceJob(**{**values, "name": name, **changes}))
        return self.storage(name)

    def planned(self, name: str, attempt: int, hosts: int = 2, **changes: Any) -> None:
        storage = self.storage(name)
        plan = HostPlan(
            job=name,
            attempt=attempt,
            accelerator="v6e-16",
            output=storage.url,
            hosts=hosts,
            devices_per_host=4,
            platform="cpu",
            coordinator="127.0.0.1:20123",
            addresses=("127.0.0.1",) * hosts,
            program=Program(kind="module", target="m:f"),
            checkpoint_every=600.0,
            grace=30.0,
            orphan_after=60.0,
            join_timeout=120.0,
            python=sys.executable,
            **changes,
        )
        storage.put(layout.plan(attempt), plan.to_json())

    def running(self, name: str, attempt: int, host: int, *, pid: int = 2**22 + 1, **progress: Any) -> None:
        """A host that began; by default its process is none that a machine can have."""
        storage = self.storage(name)
        storage.put(layout.started(attempt, host), contract.write_json({"pid": pid}))
        if progress:
            storage.put(f"{layout.scratch(attempt, host)}/{Scratch.PROGRESS}", contract.write_json(progress))

    def wrote(self, name: str, attempt: int, host: int, text: str) -> None:
        self.storage(name).put(layout.log(attempt, host), text.encode())

    def recorded(self, name: str, attempt: int, host: int, code: int = 0, **progress: Any) -> None:
        record = HostRecord(attempt=attempt, host=host, exit_code=code, progress=Progress(**progress))
        self.storage(name).put(layout.record(attempt, host), record.to_json())

    def attempt_ended(self, name: str, attempt: int, kind: FailureKind | None = None, **steps: int) -> AttemptSummary:
        cause = None if kind is None else failure(kind, f"{kind} it was.", host=1)
        outcome = "succeeded" if kind is None else kind.value
        summary = AttemptSummary(
            number=attempt, accelerator="v6e-16", started=100.0, ended=165.0, outcome=outcome, failure=cause, **steps
        )
        history.write_outcome(self.storage(name), summary)
        return summary

    def ended(self, name: str, kind: FailureKind | None = None, value: Any = None) -> None:
        """The whole job: with its value, or by the failure of its last attempt."""
        state = "succeeded" if kind is None else "stopped" if kind is FailureKind.STOPPED else "failed"
        attempts = history.all_ended(self.storage(name))
        cause = attempts[-1].failure if attempts else failure(kind, "It was so.") if kind else None
        end = JobResult(job=name, state=state, attempts=attempts, output="", value=value, failure=cause)
        history.write_result(self.storage(name), end)


@pytest.fixture
def jobs(output: Path) -> Jobs:
    return Jobs(output)


@pytest.fixture
def jobs_in() -> Callable[[str], Jobs]:
    """Lays down jobs in another output, such as a bucket."""
    return Jobs
