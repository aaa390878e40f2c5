"""Our flows deployed from Python and run by Prefect's commands: on a pool, from git, with an image, and served.

The page on deployments is tried with those of `make test`; this goes further, and takes ten minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect_server import Server, running, wait_for
from slice_worker_pool import SliceWorkerPool, slice_worker_pool

from prefect_tpu.infra import layout

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(400)]

PROGRAMS = Path(__file__).parents[1] / "programs"
COUNTER = f"{PROGRAMS / 'counter.py'}:main"
STEPS, HOLD_AT = 6, 3
IMAGE = "images.example/team/flow:1"
DEPLOYING = f"""
import sys
from prefect import Flow
from prefect_tpu.flows.retrain import retrain
from prefect_tpu.flows.sweep import sweep
from prefect_tpu.flows.train import train

pool, repository = sys.argv[1:]
for flow in (train, retrain, sweep):
    flow.deploy("python", work_pool_name=pool, job_variables={{"accelerator": "cpu"}})
train.deploy("pods", work_pool_name=pool, image="{IMAGE}", build=False, push=False)
here = Flow.from_source(source=repository, entrypoint="prefect_tpu.flows.train.train")
here.deploy("git", work_pool_name=pool)
"""
SERVING = """
from prefect import serve
from prefect_tpu.flows.retrain import retrain
from prefect_tpu.flows.sweep import sweep
from prefect_tpu.flows.train import train

serve(*(flow.to_deployment("served") for flow in (train, retrain, sweep)))
"""
TRIGGERED = f"""
deployments:
  - name: triggered
    entrypoint: prefect_tpu.flows.train:train
    parameters: {{program: "{COUNTER}", name: triggered, params: {{steps: {STEPS}, hold_at: {HOLD_AT}}}}}
    concurrency_limit: {{limit: 1, collision_strategy: CANCEL_NEW, grace_period_seconds: 3600}}
    triggers:
      - enabled: true
        expect: [pictures.arrived]
    work_pool: {{name: POOL, job_variables: {{accelerator: cpu}}}}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with a program, and nothing of ours."""
    work, bare = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("remote") / "programs.git"
    (work / "count.py").write_text((PROGRAMS / "counter.py").read_text())
    me = ("-c", "user.name=a test", "-c", "user.email=a@test.invalid")
    copied = ("clone", "-q", "--bare", ".", bare)
    for asked in (("init", "-q"), ("add", "."), (*me, "commit", "-qm", "A program"), copied):
        subprocess.run(["git", *asked], cwd=work, check=True, timeout=60)
    return bare


@pytest.fixture(scope="module")
def pool(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SliceWorkerPool]:
    with slice_worker_pool(server, tmp_path_factory.mktemp("python")) as found:
        found.start_worker()
        yield found


@pytest.fixture(scope="module")
def deployed(pool: SliceWorkerPool, repository: Path) -> str:
    """What deploying printed, in a folder that has none of our files."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", DEPLOYING, pool.name, repository], env=pool.environment, cwd=pool.folder,
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def served(server: Server, pool: SliceWorkerPool) -> Iterator[None]:
    """The flows, by a process that needs no pool."""
    command = [sys.executable, "-P", "-c", SERVING]
    with running(command, pool.environment, pool.folder, "served") as process:
        log = pool.folder / "served.log"
        wait_for(lambda: "being served" in log.read_text() or process.poll() is not None, "the flows to be served")
        assert process.poll() is None, log.read_text()
        yield


def words(option: str, given: dict[str, Any]) -> list[str]:
    """As the command line takes them."""
    said = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()]
    return [part for word in said for part in (option, word)]


def run(server: Server, deployment: str, variables: dict[str, Any] | None = None, **parameters: Any) -> str:
    """What `prefect deployment run` printed until the run's end, which was a good one."""
    asked = [*words("-p", parameters), *words("-jv", variables or {})]
    return server.command("deployment", "run", deployment, *asked, "--watch")


def start(server: Server, deployment: str, **parameters: Any) -> dict[str, Any]:
    made = server.ask(f"/deployments/name/{deployment}")["id"]
    found: dict[str, Any] = server.ask(f"/deployments/{made}/create_flow_run", parameters=parameters)
    return found


def runs_of(server: Server, deployment: str) -> list[dict[str, Any]]:
    made = server.ask(f"/deployments/name/{deployment}")["id"]
    found: list[dict[str, Any]] = server.ask("/flow_runs/filter", deployments={"id": {"any_": [made]}})
    return found


def hosts(pool: SliceWorkerPool, job: str) -> set[str]:
    return {path.name for path in (pool.folder / "jobs" / job / layout.hosts(1)).iterdir()}


def learning(pool: SliceWorkerPool, model: str) -> dict[str, Any]:
    """Parameters of `retrain`."""
    (pool.folder / "numbers").write_text("8.0")
    learner = PROGRAMS / "learner.py"
    return {
        "model": model, "program": f"{learner}:main", "evaluate": f"{learner}:evaluate",
        "data": {"numbers": str(pool.folder / "numbers")}, "held_out": {"numbers": str(pool.folder / "numbers")},
    }  # fmt: skip


def trying(name: str) -> dict[str, Any]:
    """Parameters of `sweep`."""
    return {"name": name, "program": f"{PROGRAMS / 'trier.py'}:main", "space": {"x": [1.0, 3.0]}, "trials": 2}


def test_deploying_needs_no_image_and_says_what_comes_next(server: Server, deployed: str) -> None:
    for name in ("train/python", "retrain/python", "sweep/python", "train/pods", "train/git"):
        assert name in deployed
        flow = name.partition("/")[0]
        assert server.ask(f"/deployments/name/{name}")["entrypoint"] == f"prefect_tpu.flows.{flow}.{flow}"


def test_train_with_parameters(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    told = run(
        server, "train/python", {"accelerator": "cpu"},
        program=COUNTER, accelerator="cpu-2x1", name="asked", params={"steps": STEPS},
    )  # fmt: skip
    assert "Flow run finished successfully in 'Completed'." in told
    assert hosts(pool, "asked") == {"0", "1"}
    assert json.loads((pool.folder / "jobs/asked" / layout.RESULT).read_text())["value"]["total"] == sum(range(STEPS))


def test_a_job_variable_is_for_the_flow_s_own_host(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    asked = {"program": COUNTER, "name": "own-host", "params": {"steps": STEPS}}
    told = run(server, "train/python", {"accelerator": "cpu-2x1"}, **asked)
    assert "Job Variables: {'accelerator': 'cpu-2x1'}" in told
    (done,) = [found for found in runs_of(server, "train/python") if found["parameters"].get("name") == "own-host"]
    assert hosts(pool, pool.job(done).name) == {"0", "1"}  # of the flow; the parameter was for the training
    assert hosts(pool, "own-host") == {"0"}


def test_a_job_that_nobody_named_lies_beside_that_of_its_run(
    server: Server, pool: SliceWorkerPool, deployed: str
) -> None:
    asked = {"program": COUNTER, "accelerator": "cpu-2x1", "params": {"steps": STEPS}}
    assert "in 'Completed'" in run(server, "train/python", **asked)
    (done,) = [found for found in runs_of(server, "train/python") if "name" not in found["parameters"]]
    assert hosts(pool, f"{pool.job(done).name}-job") == {"0", "1"}


def test_retrain_and_sweep(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    assert "in 'Promoted'" in run(server, "retrain/python", **learning(pool, "deployed"))
    assert "in 'Completed'" in run(server, "sweep/python", **trying("tried"))
    assert (pool.folder / "jobs/tried-0" / layout.RESULT).exists()


def test_an_image_is_for_pods_and_a_run_here_does_without(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    assert server.ask("/deployments/name/train/pods")["job_variables"] == {"image": IMAGE}
    asked = {"program": COUNTER, "name": "no-pods", "params": {"steps": STEPS}}
    state = server.wait_for_end(start(server, "train/pods", **asked))
    assert state["type"] == "FAILED" and "gs://" in state["message"], state  # no cluster's hosts write here
    assert "in 'Completed'" in run(server, "train/pods", {"image": ""}, **asked)


def test_programs_come_from_git(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    asked = {"program": "count.py:main", "name": "from-git", "params": {"steps": STEPS}}
    assert "in 'Completed'" in run(server, "train/git", {"accelerator": "cpu"}, **asked)
    assert (pool.folder / "jobs/from-git" / layout.RESULT).exists()


def test_served_by_a_process(server: Server, pool: SliceWorkerPool, served: None) -> None:
    assert "in 'Completed'" in run(
        server, "train/served", program=COUNTER, accelerator="cpu-2x1", name="served", params={"steps": STEPS}
    )
    assert hosts(pool, "served") == {"0", "1"}
    assert "in 'Promoted'" in run(server, "retrain/served", **learning(pool, "served-model"))
    assert "in 'Completed'" in run(server, "sweep/served", **trying("served-sweep"))


def test_a_served_run_is_cancelled(server: Server, pool: SliceWorkerPool, served: None) -> None:
    params = {"steps": STEPS, "hold_at": HOLD_AT}
    unwanted = start(server, "train/served", program=COUNTER, name="unwanted", params=params)
    job = pool.folder / "jobs" / "unwanted"
    wait_for((job / "counter" / "state-0.json").exists, "the first step")
    server.command("flow-run", "cancel", unwanted["id"])
    assert server.wait_for_end(unwanted)["type"] == "CANCELLED"
    wait_for(lambda: not pool.processes_of(job), "the end of its host")
    assert (job / layout.RESULT).exists()


def test_an_event_starts_a_run_and_a_second_one_is_refused_meanwhile(server: Server, pool: SliceWorkerPool) -> None:
    (pool.folder / "triggered.yaml").write_text(TRIGGERED.replace("POOL", pool.name))
    server.command("deploy", "--all", "--prefect-file", "triggered.yaml", folder=pool.folder)
    server.command("events", "emit", "pictures.arrived", "--resource-id", "camera")
    first = wait_for(lambda: next(iter(runs_of(server, "train/triggered")), None), "a run by the trigger")
    job = pool.folder / "jobs" / "triggered"
    wait_for((job / "counter" / "state-0.json").exists, "the first step")
    second = start(server, "train/triggered")
    assert server.wait_for_end(second)["type"] == "CANCELLED"
    (job / "counter" / "go").touch()
    assert server.wait_for_end(first)["type"] == "COMPLETED", pool.told()
