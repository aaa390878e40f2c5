"""A person's day in Prefect's own pages, in a headless Chromium against a real server: each test goes on from the last.

What is seen is kept as pictures: `WRITE_PICTURES=1` writes those of docs/how-to/day.md.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser import Person, person
from prefect_server import Server, running_server, wait_for
from slice_worker_pool import SliceWorkerPool, slice_worker_pool

from prefect_tpu.infra import layout
from prefect_tpu.infra.models.registry import Registry

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
TRAVELS = ("deployments", "docs/examples")
EACH_MINUTE = "* * * * *"
WITHOUT_END = {"steps": 100_000, "step_seconds": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Who works where: a person's own clone, a server, and a pool of this machine's slices."""

    server: Server
    pool: SliceWorkerPool
    person: Person
    clone: Path

    @property
    def jobs(self) -> Path:
        return self.pool.folder / "jobs"

    def shown(self, run: dict[str, Any], artifact: str) -> bool:
        return any(one["key"] == artifact for one in self.server.artifacts(run))

    def shell(self, *words: str) -> str:
        """A command in the clone; what it printed."""
        tool = Path(sys.executable).with_name(words[0])
        done = subprocess.run(
            [tool, *words[1:]], cwd=self.clone, env=self.pool.environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def night(self, name: str) -> None:
        """What came in to learn from that night."""
        self.shell("python", "docs/examples/nightly/nights.py", name, "tonight")

    def deployment(self, name: str) -> str:
        return str(self.server.ask(f"/deployments/name/{name}")["id"])

    def runs_of(self, deployment: str) -> list[dict[str, Any]]:
        """All but those to come, oldest first."""
        wanted = {"id": {"any_": [self.deployment(deployment)]}}
        found = self.server.ask("/flow_runs/filter", deployments=wanted, sort="EXPECTED_START_TIME_ASC")
        return [run for run in found if run["state_type"] != "SCHEDULED"]

    def is_on(self, cron: str) -> bool:
        made = self.server.ask("/deployments/name/retrain/nightly")["schedules"]
        return any(one["active"] for one in made if one["schedule"].get("cron") == cron)

    def at_work(self, deployment: str) -> bool:
        return any(run["state_type"] in ("PENDING", "RUNNING", "PAUSED") for run in self.runs_of(deployment))

    def wait_for_run(self, deployment: str, *states: str) -> dict[str, Any]:
        """The first run of a deployment that is in one of these states."""

        def look() -> dict[str, Any] | None:
            return next((run for run in self.runs_of(deployment) if run["state_name"] in states), None)

        return wait_for(look, f"a run of {deployment} that is {' or '.join(states)}", patience=400)

    def runs(self, deployment: str, picture: str | None = None, **parameters: object) -> dict[str, Any]:
        """Fill in the form of a deployment and start what comes of it; the run, whose page is open then."""
        self.person.opens(f"/deployments/deployment/{self.deployment(deployment)}/run")
        name = f"by-hand-{len(self.runs_of(deployment))}"
        self.person.writes("Run Name", name)
        for parameter, value in parameters.items():
            self.person.writes(parameter, value)
        if picture is not None:
            self.person.takes(picture)
        self.person.submits()
        (found,) = wait_for(lambda: self.server.ask("/flow_runs/filter", flow_runs={"name": {"any_": [name]}}), name)
        self.person.opens(f"/runs/flow-run/{found['id']}")
        run: dict[str, Any] = found
        return run


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """In the morning: the pool is made by the command, what is in the clone is deployed, and a worker waits."""
    folder = tmp_path_factory.mktemp("day")
    for place in TRAVELS:
        shutil.copytree(ROOT / place, folder / "clone" / place)
    with (
        running_server(folder) as server,
        slice_worker_pool(server, folder) as pool,
        person(server.environment["PREFECT_API_URL"].removesuffix("/api"), folder) as somebody,
    ):
        day = Day(server=server, pool=pool, person=somebody, clone=folder / "clone")
        day.shell("prefect-tpu", "pool", "create", "tpu")
        day.shell("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
        pool.name = "tpu"
        pool.start_worker()
        yield day


def test_the_pool_has_a_form(day: Day) -> None:
    day.person.opens("/work-pools/work-pool/tpu/edit")
    day.person.sees("The slice, such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.")
    for field in ("Fallback Accelerators", "Make Node Pools", "Queue", "Grace"):
        day.person.sees(f"{field} (Optional)")
    day.person.takes("pool-form")


@pytest.fixture(scope="module")
def training(day: Day) -> dict[str, Any]:
    """A run of `train` from its form, on another accelerator than the form's."""
    return day.runs(
        "train/tpu", picture="form", program="docs/examples/digits.py:main", accelerator="v6e-16", params=WITHOUT_END,
        data={"digits": "docs/examples/data/digits.csv.gz"}, name="from-the-form",
    )  # fmt: skip


def test_a_training_from_the_form_is_watched(day: Day, training: dict[str, Any]) -> None:
    """Its slice is the one of the form: four hosts."""
    day.person.sees("Running")
    day.person.presses("Task Runs", "tab")
    day.person.sees("launch_training-1")
    wait_for((day.jobs / "from-the-form" / layout.hosts(1) / "3").exists, "the fourth host")
    wait_for(lambda: day.shown(training, "progress-from-the-form"), "the bar")
    day.person.presses("Artifacts", "tab")
    day.person.sees("progress-from-the-form")
    day.person.takes("training")


def test_it_is_cancelled_and_its_slice_is_gone(day: Day, training: dict[str, Any]) -> None:
    day.person.chooses("Cancel")
    day.person.answers("Cancel Flow Run")
    day.person.sees("Cancelled")
    day.person.takes("cancelled")
    job = day.jobs / "from-the-form"
    wait_for(lambda: not day.pool.processes_of(job) and not day.pool.processes(training), "the end of all hosts")


# Each night


@pytest.fixture(scope="module")
def nights(day: Day) -> None:
    """Every night, says the file; a test has no time for that. All else is as the deployment says it."""
    day.night("1")
    day.person.opens(f"/deployments/deployment/{day.deployment('retrain/nightly')}")
    day.person.presses("Schedule")
    day.person.presses("Cron", "tab")
    day.person.answers("Save", picture="schedule", Value=EACH_MINUTE)
    day.person.sees("Every minute")


def champion(day: Day) -> int:
    found = Registry(str(day.jobs), "digits").champion()
    assert found is not None
    return found.number


def night_that_ended(day: Day, state: str) -> dict[str, Any]:
    """The first one in this state, as its page shows it, with the reason."""
    run = day.wait_for_run("retrain/nightly", state)
    day.person.opens(f"/runs/flow-run/{run['id']}")
    day.person.sees(state)
    day.person.presses("Details", "tab")
    day.person.sees(run["state"]["message"])
    day.person.takes(state.lower())
    return run


def test_a_night_promotes(day: Day, nights: None) -> None:
    run = night_that_ended(day, "Promoted")
    assert "auto-scheduled" in run["tags"] and champion(day) == 1


def test_a_bad_night_keeps_the_champion(day: Day, nights: None) -> None:
    day.night("broken")
    night_that_ended(day, "Kept")
    assert champion(day) == 1


# Asked first


def test_an_approval_is_given(day: Day, nights: None) -> None:
    """Of somebody who sees the run wait, and answers in its form."""
    day.person.opens(f"/deployments/deployment/{day.deployment('retrain/nightly')}")
    day.person.presses("toggle Every minute", "switch")
    wait_for(lambda: not day.is_on(EACH_MINUTE), "that the schedule is off")
    wait_for(lambda: not day.at_work("retrain/nightly"), "the end of the night that has begun")
    day.night("2")
    run = day.runs("retrain/nightly", approval_hours=1)
    day.person.sees("Paused")
    day.person.chooses("Resume")
    day.person.answers("Resume", picture="approval", Reason="the pictures are good")
    day.person.sees("Promoted", patience=400)
    assert day.server.ask(f"/flow_runs/{run['id']}")["state_name"] == "Promoted" and champion(day) > 1


# What Prefect does by itself


def test_an_automation_pauses_the_pool(day: Day) -> None:
    """A run that asks for more than there may ever be: the next ones need not end so too."""
    day.shell("prefect-tpu", "automations", "install", "pause-without-quota", "--pool", "tpu")
    run = day.runs("train/tpu", program="docs/examples/digits.py:main", accelerator="cpu-64x1", name="too-large")
    day.person.sees("Failed")
    wait_for(lambda: day.server.ask("/work_pools/tpu")["is_paused"], "that the pool is paused")
    day.person.opens("/automations")
    day.person.sees("prefect-tpu: pause without quota (tpu)")
    day.person.opens("/work-pools/work-pool/tpu")
    day.person.sees("Paused")
    day.person.takes("paused")
    assert "no_quota" in day.server.ask(f"/flow_runs/{run['id']}")["state"]["message"]
