"""A mission: jobs of one kind in a namespace of their own, whose drivers are killed and whose way is faulty."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import container
import psutil
from cluster import CLONE, Cluster
from container import Google
from faults import Faults, Kind, Moment
from gcs import Gcs
from lives import Laid, Lives
from nursery import Life, Nursery
from pools import PoolWitness
from rights import DRIVER, HOST, grant
from way import POOLS, PROJECT, REGION, Ends, Way, way
from witness import Witness, left_of

from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import open_storage

PROGRAM = CLONE / "tests" / "programs" / "ticker.py"
IMAGE = "python-with-bucket"
STEPS, STEP_SECONDS = 25, 0.1
ZONE = "us-east5-a"
GONE_SECONDS = 90.0
LOOK_SECONDS = 0.1
MARK = "PREFECT_TPU_ATTEMPT"  # in the environment of whatever runs for an attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Mission:
    """What kind of jobs.

    servers: those that its drivers ask; with POOLS a pool is made for each attempt, and the first is taken back.
    prepare: makes what it needs in its namespace beside the rights.
    """

    name: str
    accelerator: str
    servers: tuple[str, ...]
    pods: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Cluster, str], None] = lambda cluster, namespace: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """What happens to its drivers."""

    moments: Sequence[Moment] = ()
    faults: Mapping[str, Faults] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How it went.

    made, pools: job → the JobSets and the node pools that there were. overlaps, left: what must not be.
    """

    results: list[dict[str, Any]]
    killed: list[Moment]
    injected: Counter[Kind]
    made: Mapping[str, set[str]]
    pools: Mapping[str, set[str]]
    overlaps: list[str]
    left: list[str]
    story: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where missions are played, and where their drivers come from."""

    cluster: Cluster
    gcs: Gcs
    nursery: Nursery
    folder: Path


def play(stage: Stage, mission: Mission, ordeal: Ordeal) -> Played:
    """One mission, from an empty namespace to one that must be empty again."""
    name = f"{mission.name}-{len(ordeal.moments)}-{len(ordeal.faults)}"
    folder = stage.folder / name
    folder.mkdir()
    output = f"gs://{stage.gcs.new_bucket()}/jobs"
    with ExitStack() as running:
        running.enter_context(stage.cluster.namespace(name))
        grant(stage.cluster, name)
        mission.prepare(stage.cluster, name)
        google, pools = _google(stage, mission, output, running)
        ends = Ends(cluster=stage.cluster, namespace=name, account=DRIVER, gcs=stage.gcs, google=google)
        path = running.enter_context(way(ends, folder, ordeal.faults))
        with Witness(stage.cluster.api, name) as witness:
            lives = _lives(stage, mission, path, output, name)
            lives.live_through(list(ordeal.moments))
            left = _left(stage, google, name, output)
    return Played(
        results=lives.results,
        killed=lives.killed,
        injected=path.traffic.injected,
        made=witness.made,
        pools=pools.made if pools else {},
        overlaps=witness.overlaps + (pools.overlaps if pools else []),
        left=left,
        story="\n".join(lives.told),
    )


def _google(
    stage: Stage, mission: Mission, output: str, running: ExitStack
) -> tuple[Google | None, PoolWitness | None]:
    if POOLS not in mission.servers:
        return None, None
    google = running.enter_context(container.running(machines=stage.cluster.kubelet))
    return google, running.enter_context(PoolWitness(google, open_storage(output)))


def with_bucket(cluster: Cluster, gcs: Gcs) -> None:
    """The image whose containers take the fake for Google."""
    python = cluster.kubelet.images.pull("pod-python", "IfNotPresent")
    cluster.kubelet.images.add(IMAGE, replace(python, environment=gcs.environment))


def _lives(stage: Stage, mission: Mission, path: Way, output: str, namespace: str) -> Lives:
    pools = {"cluster": f"gke://{PROJECT}/{REGION}/{namespace}", "zones": (ZONE,), "make_pools": True}
    said = {**mission.pods, **(pools if POOLS in mission.servers else {})}
    pods = PodSettings(image=IMAGE, python="python", namespace=namespace, service_account=HOST, **said)

    def lay_down(number: int) -> Laid:
        request = Request(
            name=f"job{number}",
            program=f"{PROGRAM}:main",
            accelerators=(mission.accelerator,),
            output=output,
            params={"steps": STEPS, "seconds": STEP_SECONDS},
            settings={"backend": "jobset", "pods": pods, "grace": 2.0},
        )
        job = prepare(request)
        return Laid(job=job, storage=open_storage(output).inside(job.name))

    def start(job: Path, at: str) -> Life:
        return stage.nursery.begin(job, at, path.environment)

    return Lives(lay_down=lay_down, start=start, traffic=path.traffic, folder=stage.folder / namespace)


def _left(stage: Stage, google: Google | None, namespace: str, output: str) -> list[str]:
    """What is still there when everything had time to go."""
    end = time.monotonic() + GONE_SECONDS
    while True:
        pools = [f"pool {name}" for name in google.pools] if google else []
        left = [*left_of(stage.cluster.api, namespace), *pools, *map(str, processes(output))]
        if not left or time.monotonic() > end:
            return left
        time.sleep(LOOK_SECONDS)


def processes(output: str) -> list[psutil.Process]:
    """Of this machine, that run for an attempt of a job below an output."""
    return [process for process in psutil.process_iter() if _runs_for(process, output)]


def _runs_for(process: psutil.Process, output: str) -> bool:
    try:
        is_gone = process.status() == psutil.STATUS_ZOMBIE
        return not is_gone and process.environ().get(MARK, "").startswith(output)
    except (psutil.Error, OSError):
        return False
