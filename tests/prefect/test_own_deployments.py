"""`deployments/prefect.yaml` on a `tpu-slice` pool: flows of ours that ask for slices from a host without chips."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect_server import Server, wait_for
from slice_worker_pool import SliceWorkerPool, slice_worker_pool

from prefect_tpu.infra import layout
from prefect_tpu.infra.models.registry import Registry

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
COUNTER = "tests/programs/counter.py:main"  # counts from where it was deployed
STEPS, HOLD_AT = 20, 10


@pytest.fixture(scope="module")
def pool(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SliceWorkerPool]:
    """As the file's first lines say, with one slice on this machine: whoever asks for it must not hold it."""
    with slice_worker_pool(server, tmp_path_factory.mktemp("tpu")) as found:
        found.name = "tpu"
        tool = Path(sys.executable).with_name("prefect-tpu")
        subprocess.run([tool, "pool", "create", "tpu"], env=found.environment, check=True, timeout=120)
        found.start_worker(PREFECT_TPU_LOCAL_SLICES="1")
        yield found


@pytest.fixture(scope="module")
def deployed(server: Server, pool: SliceWorkerPool) -> str:
    """What deploying printed."""
    return server.command("deploy", "--all", "--prefect-file", "deployments/prefect.yaml", folder=ROOT)


def start(server: Server, deployment: str, **parameters: Any) -> dict[str, Any]:
    made = server.ask(f"/deployments/name/{deployment}")["id"]
    found: dict[str, Any] = server.ask(f"/deployments/{made}/create_flow_run", parameters=parameters)
    return found


def test_accelerators_are_checked_before_anything_is_deployed(deployed: str) -> None:
    assert "v6e-16: 16 chips on 4 hosts" in deployed and "v6e-8: 8 chips on 1 host" in deployed


def test_train_on_another_accelerator_than_the_pools(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    run = start(server, "train/tpu", program=COUNTER, accelerator="cpu-2x1", name="asked", params={"steps": STEPS})
    assert server.wait_for_end(run)["type"] == "COMPLETED", pool.told()
    job = pool.folder / "jobs" / "asked"
    assert {path.name for path in (job / layout.hosts(1)).iterdir()} == {"0", "1"}
    assert (job / layout.RESULT).exists()


def test_cancelled_and_its_slice_is_gone(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    params = {"steps": STEPS, "hold_at": HOLD_AT}
    run = start(server, "train/tpu", program=COUNTER, accelerator="cpu-2x1", name="unwanted", params=params)
    job = pool.folder / "jobs" / "unwanted"
    wait_for(lambda: len(pool.processes_of(job)) >= 4, "two hosts")
    server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert server.wait_for_end(run)["type"] == "CANCELLED"
    wait_for(lambda: not pool.processes_of(job) and not pool.processes(run), "the end of all hosts")


def test_a_driver_that_is_lost_is_followed_by_another_that_goes_on(
    server: Server, pool: SliceWorkerPool, deployed: str
) -> None:
    params = {"steps": STEPS, "hold_at": HOLD_AT}
    run = start(server, "train/tpu", program=COUNTER, accelerator="cpu-2x1", name="driven", params=params)
    job = pool.folder / "jobs" / "driven"
    wait_for((job / "counter" / "state-0.json").exists, "the first step")
    pool.runner(run).kill()
    (job / "counter" / "go").touch()
    assert server.wait_for_end(run, but_not=frozenset({"CRASHED"}))["type"] == "COMPLETED", pool.told()
    assert not pool.processes_of(job)


def test_a_model_is_retrained_by_its_deployment(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    for name in ("numbers", "held-out"):
        (pool.folder / name).write_text("8.0")
    run = start(
        server, "retrain/nightly", model="nightly", program="tests/programs/learner.py:main",
        evaluate="tests/programs/learner.py:evaluate", metric="loss", mode="min", accelerator="cpu",
        data={"numbers": str(pool.folder / "numbers")}, held_out={"numbers": str(pool.folder / "held-out")},
    )  # fmt: skip
    state = server.wait_for_end(run)
    assert (state["type"], state["name"]) == ("COMPLETED", "Promoted"), pool.told()
    champion = Registry(str(pool.folder / "jobs"), "nightly").champion()
    assert champion is not None and champion.number == 1


def test_a_sweep_is_tried_by_its_deployment(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    run = start(
        server, "sweep/digits", name="tried", program="tests/programs/trier.py:main", data={}, metric="loss",
        mode="min", space={"x": [1.0, 3.0]}, trials=2, accelerator="cpu", chips=1,
    )  # fmt: skip
    assert server.wait_for_end(run)["type"] == "COMPLETED", pool.told()
    for trial in ("tried-0", "tried-1"):
        assert (pool.folder / "jobs" / trial / layout.RESULT).exists()


def test_a_sweep_that_could_never_run_takes_no_name(server: Server, pool: SliceWorkerPool, deployed: str) -> None:
    asked = {
        "name": "mistaken", "program": "tests/programs/trier.py:main", "space": {"x": [3.0, 4.0]}, "metric": "loss",
        "mode": "min", "trials": 2, "accelerator": "cpu", "chips": 1, "training": {"timing": {"grace": 2.0}},
    }  # fmt: skip
    state = server.wait_for_end(start(server, "sweep/digits", **asked, data={"numbers": "nowhere.csv"}))
    assert state["type"] == "FAILED" and "UsageError: Data nowhere.csv is not there" in state["message"]
    assert not (pool.folder / "jobs" / layout.sweep("mistaken")).exists()
    assert server.wait_for_end(start(server, "sweep/digits", **asked, data={}))["type"] == "COMPLETED", pool.told()
    assert '"grace":2.0' in (pool.folder / "jobs" / layout.trial_job("mistaken", 0) / layout.JOB).read_text()
