"""What is there without anybody who minds it: objects of jobs that have their end, and a job whose driver is dead."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from objects import JOBSETS
from prefect_server import running, wait_for
from rights import HOST
from scenes import HOSTS, Played, Scene, Story, played
from slice_pool import IMAGE, SlicePool, slice_pool
from slice_runs import PATIENCE, PAUSE, SliceRun
from stories_ended import ONE_HOST

TRAINER = Path(__file__).with_name("trainer.py")
TTL_SECONDS = 5
_OURS = ("name", "namespace", "labels", "annotations")  # of an object's metadata, what was sent


def put_back(scene: Scene) -> Played:
    """The JobSet of a run that is over is made again by hand, as a backup may do it."""
    with slice_pool(scene.pool.stage, scene.pool.server, scene.name) as pool:
        worker = pool.workers.start()
        run = pool.start(pool.deploy("once", **ONE_HOST))
        run.wait_until_up(1, 1)
        (jobset,) = run.jobsets()
        run.let_go_on()
        before = played(run, pool)
        worker.kill()
        scene.cluster.api.post(f"{JOBSETS}/namespaces/{pool.namespace}/jobsets", _as_sent(jobset))
        wait_for(run.pods, f"the pods of what was put back of {run}")
        pool.workers.start()
        seconds = run.wait_until_gone()
        return replace(before, began=run.count("began"), state=run.state, seconds_to_gone=seconds)


def _as_sent(jobset: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in jobset["metadata"].items() if name in _OURS}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": jobset["spec"]}


def unattended(scene: Scene) -> Played:
    """Its worker is killed, and it goes on and ends: its objects go after their time. Then there is a worker again."""
    with slice_pool(scene.pool.stage, scene.pool.server, scene.name) as pool:
        worker = pool.workers.start()
        run = pool.start(pool.deploy("once", **ONE_HOST, ttl=TTL_SECONDS))
        run.wait_until_up(1, 1)
        worker.kill()
        run.let_go_on()
        run.wait_for_name("Completed")
        wait_for(lambda: not (run.jobsets() or run.pods()), f"the end of the JobSet of {run}", PATIENCE, PAUSE)
        pool.workers.start()
        return played(run, pool)


def trainer_killed(scene: Scene) -> Played:
    """A run of the flow `train`, with its jobs where those of the pool are, whose process is killed."""
    pool = scene.pool
    folder = pool.workers.folder / scene.name
    folder.mkdir()
    command = [sys.executable, "-P", str(TRAINER), pool.output, pool.namespace, IMAGE, HOST]
    environment = {**pool.workers.environment, "XDG_DATA_HOME": str(folder)}
    with running(command, environment, folder, "trainer") as trainer:
        wait_for(lambda: _trained(pool) or trainer.poll() is not None, "the trainer's run", PATIENCE)
        assert trainer.poll() is None, (folder / "trainer.log").read_text()
        (found,) = _trained(pool)
        run = replace(pool.run(found["id"]), named=found["parameters"]["name"])
        wait_for(lambda: len(_running(run)) == HOSTS, f"the hosts of {run}", PATIENCE, PAUSE)
        trainer.kill()
        trainer.wait()
        return played(run, pool)


def _trained(pool: SlicePool) -> list[dict[str, Any]]:
    """Runs of no deployment that write where those of the pool do."""
    runs = pool.server.ask("/flow_runs/filter", sort="START_TIME_DESC", limit=200)
    return [run for run in runs if run["parameters"].get("output") == pool.output and run["start_time"]]


def _running(run: SliceRun) -> list[dict[str, Any]]:
    return [pod for pod in run.pods() if pod["status"]["phase"] == "Running"]


PUT_BACK = Story(name="put-back", play=put_back, waits=True)
UNATTENDED = Story(name="unattended", play=unattended, waits=True)
TRAINER_KILLED = Story(name="trainer-killed", play=trainer_killed, waits=True)
