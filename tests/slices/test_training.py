"""The program's side on real JAX processes: agreed saves, preemption, resuming bit for bit, and refusals.

Each host is a process with its own environment, as the host runner starts it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
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
from prefect_tpu.infra.plan import HostPlan, RestorePoint
from prefect_tpu.infra.training.join import HEARTBEAT_SECONDS

pytestmark = pytest.mark.slices

PROGRAM = Path(__file__).with_name("training_program.py")
PATIENCE = 90.0  # seconds until a host is given up; a start takes some on a busy machine


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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "out" / "job"
        self.attempt = 0
        self.started: list[Hosts] = []

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
            join_timeout=60.0,
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
                [sys.executable, str(PROGRAM), case, json.dumps(kw)],
                env={
                    **os.environ,
                    "JAX_PLATFORMS": "cpu",
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


STEPS = 60


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Slice, Hosts]]:
    """A run that saves by time and meets nothing; what others must equal bit for bit."""
    made = Slice(tmp_path_factory.mktemp("undisturbed"))
    hosts = made.start(made.plan(2, 1, checkpoint_every=0.3), "train", steps=STEPS, pause=0.02)
    hosts.outcomes()
    yield made, hosts
    made.end()


def test_hosts_save_by_time_at_the_same_steps(undisturbed: tuple[Slice, Hosts]) -> None:
    made, hosts = undisturbed
    first, second = hosts.values()
    assert first["digest"] == second["digest"]
    assert len(made.seals(1)) >= 3 and made.seals(1)[-1] == STEPS - 1
    assert [event["step"] for event in hosts.events(0, Event.SAVED)] == made.seals(1)


def test_progress_and_events_tell_the_whole_run(undisturbed: tuple[Slice, Hosts]) -> None:
    _, hosts = undisturbed
    for host in range(2):
        progress = hosts.progress(host)
        assert (progress["step"], progress["first_step"], progress["saved_step"]) == (STEPS - 1, 0, STEPS - 1)
        assert len(hosts.events(host, Event.JOINED)) == 1
        steps = [event["step"] for event in hosts.events(host, Event.STEP)]
        assert steps[0] == 0 and steps[-1] == STEPS - 1 and steps == sorted(set(steps))
        assert progress["metrics"]["mean"] == hosts.events(host, Event.STEP)[-1]["mean"]


def test_a_notice_to_one_host_saves_the_same_step_on_all(slice_: Slice, undisturbed: tuple[Slice, Hosts]) -> None:
    """And the run goes on from there as if nothing had been, on the same slice and on another one."""
    hosts = slice_.start(slice_.plan(2, 1), "train", steps=STEPS, pause=0.1)
    hosts.wait_for_step(10, host=1)
    hosts.processes[1].send_signal(signal.SIGTERM)
    first, second = hosts.outcomes()
    assert first == second and first["preempted"] >= 10
    step = first["preempted"]
    assert slice_.seals(1) == [step]
    assert hosts.progress(0)["step"] == step and hosts.progress(1)["saved_step"] == step

    whole, restore = undisturbed[1].values()[0], RestorePoint(attempt=1, step=step)
    same = slice_.start(slice_.plan(2, 1, restore=restore), "train", steps=STEPS)
    mine, other = same.values()
    assert (mine["start"], mine["drawn"]) == (step + 1, STEPS)
    assert (mine["restored_from_host"], other["restored_from_host"]) == (0, 1)
    for what in ("digest", "types", "weak"):
        assert mine[what] == other[what] == whole[what]
    (event,) = same.events(0, Event.RESTORED)
    assert (event["step"], event["attempt"]) == (step, 1)

    (value,) = slice_.start(slice_.plan(1, 4, restore=restore), "train", steps=STEPS).values()
    assert (value["start"], value["restored_from_host"]) == (step + 1, 0)
    assert value["digest"] == whole["digest"]


def test_a_notice_is_heard_where_few_steps_are_saved(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1), "train", steps=400, pause=0.02, save_each=7)
    hosts.wait_for_step(10)
    hosts.processes[0].send_signal(signal.SIGTERM)
    first, second = hosts.outcomes()
    assert first == second and first["preempted"] % 7 == 0


def test_a_host_on_its_own_hears_a_notice_and_goes_on_where_it_was(slice_: Slice) -> None:
    """Outside a job: the same block, a folder per run, and what is torn or unsealed is never restored."""
    run = {"steps": STEPS, "every": 0.4, "directory": str(slice_.folder / "mine")}
    hosts = slice_.start_outside("train", pause=0.05, **run)
    root = slice_.folder / "mine" / "1"
    wait_until(lambda: len(list(root.glob("*.sealed.json"))) >= 2, "the second save", hosts)
    hosts.processes[0].send_signal(signal.SIGTERM)
    (outcome,) = hosts.outcomes()
    sealed = sorted(int(path.name.split(".")[0]) for path in root.glob("*.sealed.json"))
    assert outcome == {"preempted": sealed[-1]}

    next((root / str(sealed[-1])).rglob("manifest.ocdbt")).unlink()  # torn
    shutil.copytree(root / str(sealed[0]), root / "1000")  # never sealed
    (value,) = slice_.start_outside("train", **run).values()
    assert value["start"] == sealed[-2] + 1
    assert (slice_.folder / "mine" / "2" / f"{STEPS - 1}.sealed.json").exists()
    (again,) = slice_.start_outside("train", **run).values()
    assert (again["start"], again["digest"]) == (STEPS, value["digest"])


def test_a_torn_checkpoint_named_by_the_plan_is_refused(slice_: Slice) -> None:
    slice_.start(slice_.plan(1, 1), "train", steps=3).values()
    next((slice_.output / layout.checkpoints(1) / "2").rglob("_METADATA")).unlink()
    plan = slice_.plan(1, 1, restore=RestorePoint(attempt=1, step=2))
    (outcome,) = slice_.start(plan, "train", steps=5).outcomes()
    assert outcome["error"] == "PlatformError" and "is not whole" in outcome["message"]


def test_a_failing_host_leaves_the_block_at_once(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1, checkpoint_every=0.2), "train", steps=STEPS, pause=0.02, raise_at=20)
    survivor, failed = hosts.outcomes()
    assert failed == {"error": "ValueError", "message": "asked for at step 20"}
    assert "Gloo" in survivor["message"]  # as a JaxRuntimeError or, from a cached dispatch, a ValueError
    seconds = float(hosts.log(1).split("left the block after ")[1].split()[0])
    assert seconds < HEARTBEAT_SECONDS / 2, "it waited for its peer"
    assert max(slice_.seals(1), default=0) < 20
    assert hosts.progress(1)["step"] == 19


def test_join_checks_the_slice(slice_: Slice) -> None:
    (value,) = slice_.start(slice_.plan(1, 2), "join").values()
    assert value == {"devices": 2, "hosts": 1}
    (outcome,) = slice_.start(slice_.plan(1, 4), "join", devices=2).outcomes()
    assert outcome["error"] == "WrongSlice" and "devices in all: 2 instead of 4" in outcome["message"]
    plan = slice_.plan(1, 1, platform="cuda", gpus=("99",), accelerator="l4")  # that no machine has
    (outcome,) = slice_.start(plan, "join").outcomes()
    assert outcome["error"] == "WrongSlice" and "pip install 'jax[cuda13]'" in outcome["message"]


def test_a_host_that_waits_alone_gives_up(slice_: Slice) -> None:
    plan = slice_.plan(2, 1, join_timeout=3.0)
    (outcome,) = slice_.start(plan, "join", only=0).outcomes()
    assert outcome["error"] == "CouldNotJoin" and "of its 2 hosts 1 did not come" in outcome["message"]


def test_join_after_jax_was_used_says_so(slice_: Slice) -> None:
    for outcome in slice_.start(slice_.plan(2, 1), "join_late").outcomes():
        assert outcome["error"] == "UsageError" and "came too late" in outcome["message"]


def test_what_leaves_devices_idle_is_refused(slice_: Slice) -> None:
    (value,) = slice_.start(slice_.plan(1, 2), "refusals").values()
    assert value == {"messages": ["refused", "refused"], "shape": {"data": 2, "tp": 1}, "axes": ["AxisType.Auto"]}


def test_a_model_per_host_is_not_saved_as_one(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1), "train_apart")
    for outcome in hosts.outcomes():
        assert outcome["error"] == "UsageError" and "different values of ['weights']: each host" in outcome["message"]
    assert slice_.seals(1) == []
