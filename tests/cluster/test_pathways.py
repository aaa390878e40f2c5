"""One program drives all chips: Pathways' JobSet on a real control plane, where a program of ours plays Google's two.

The player insists on the flags, ports and addresses that are known of them (`pathways/player.py`); the head runs real
JAX, on as many CPU devices as there are chips, in one process.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from driven import Driving, Prepared, prepared
from objects import Namespace
from played_pathways import IMAGES, add_pathways

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.backends.base import Attempt, Held
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.launcher import checkpoints
from prefect_tpu.infra.pathways import PathwaysSettings
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request
from prefect_tpu.infra.state import HostPhase, Observation, Offer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[1] / "programs" / "on_pathways.py"
REHEARSED = {"JAX_PLATFORMS": "cpu"}  # all devices are there, and none of them is a chip


@pytest.fixture
def output(cluster: Cluster, namespace: str, machine: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that pods mount as a bucket; and the images of Pathways can be pulled."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    add_pathways(cluster, "pod-python")
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))
    return str(machine.output / "jobs")


@pytest.fixture
def job(namespace: str, output: str, machine: Any) -> Iterator[Callable[..., Prepared]]:
    def make(accelerator: str, *, slices: int = 1, params: dict[str, Any], **pathways: Any) -> Prepared:
        images = {**IMAGES, "scratch": f"gs://{namespace}/pathways"}
        pods = PodSettings(
            image="pod-python",
            python="python",
            namespace=namespace,
            cpu="100m",
            volumes={str(machine.output): f"gs://{namespace}"},
            pathways=PathwaysSettings(**{**images, **pathways}),
        )
        settings = {"backend": "pathways", "slices": slices, "pods": pods, "env": REHEARSED, "checkpoint_every": 0.3}
        request = Request(
            name="alone",
            program=f"{PROGRAM}:main",
            accelerators=(accelerator,),
            output=output,
            params=params,
            settings=settings,
        )
        return prepared(request)

    yield make
    assert machine.left() == []


def said(here: Namespace, part: str, container: str) -> list[dict[str, Any]]:
    """What containers of this name wrote, of the pods whose name has this part."""
    names = [pod["metadata"]["name"] for pod in here.of("alone-1") if f"-{part}-" in pod["metadata"]["name"]]
    return [json.loads(line) for name in names for line in here.log(name, container=container).splitlines()]


def test_a_worker_is_lost_and_the_next_attempt_goes_on(
    cluster: Cluster, namespace: str, job: Callable[..., Prepared], fresh_pool: Callable[..., list[str]], until: Any
) -> None:
    here = Namespace(cluster.api, namespace)
    first = fresh_pool("v6e-16", "-a")
    asked = job("v6e-16", params={"steps": 40, "workers": 4})
    driving = Driving(asked)
    try:
        until(lambda: checkpoints.saved_step(asked.storage, 1) is not None, "the first checkpoint")
        _check_what_was_said(here)
        fresh_pool("v6e-16", "-b")
        cluster.delete_nodes(first[2])
    finally:
        result = driving.result()
    assert result.state == "succeeded", result.failure
    lost, whole = result.attempts
    assert (lost.outcome, whole.outcome) == ("host_lost", "succeeded")
    assert lost.failure is not None and re.fullmatch(f"worker [0-3]: node {first[2]} is gone", lost.failure.message)
    assert lost.places == (cluster.kubelet.nodes.labels(first[0])["cloud.google.com/gke-nodepool"],)
    assert whole.first_step == lost.saved_step + 1
    assert result.value == {
        **{"kind": "tpuv6e:4x4", "start": lost.saved_step + 1, "total": 40.0, "cache": ""},
        **{"hosts": 1, "processes": 1, "devices": 16, "workers": [4]},
    }


def _check_what_was_said(here: Namespace) -> None:
    """The player took every flag, found every address, and nobody was refused."""
    (manager, *came) = said(here, "pathways-head", "pathways-rm")
    assert manager == {"role": "manager", "kind": "tpuv6e:4x4", "slices": 1, "jobset": "alone-1"}
    assert sorted(one["came"] for one in came) == [[0, host] for host in range(4)]
    assert said(here, "pathways-head", "pathways-proxy") == [{"role": "proxy", "elastic": None}]
    workers = said(here, "worker", "pathways-worker")
    head = "alone-1-pathways-head-0-0.alone-1"
    wanted = {"role": "worker", "slices": "1", "head": head, "slice": "0"}
    assert sorted(workers, key=lambda one: one["host"]) == [{**wanted, "host": str(host)} for host in range(4)]


def test_an_elastic_job_goes_on_while_kubernetes_brings_a_worker_back(
    cluster: Cluster, namespace: str, job: Callable[..., Prepared], fresh_pool: Callable[..., list[str]], until: Any
) -> None:
    here = Namespace(cluster.api, namespace)
    for ending in ("-a", "-b"):
        fresh_pool("v6e-8", ending)
    asked = job("v6e-8", slices=2, params={"steps": 2_000, "workers": 2, "until_back": True}, elastic_slices=1)
    driving = Driving(asked)
    try:
        until(lambda: checkpoints.saved_step(asked.storage, 1) is not None, "the first checkpoint")
        (lost,) = [pod for pod in here.of("alone-1") if "-worker-1-" in pod["metadata"]["name"]]
        cluster.api.delete(f"{here.pods}/{lost['metadata']['name']}", None, gracePeriodSeconds=0)
    finally:
        result = driving.result()
    assert result.state == "succeeded", result.failure
    assert [attempt.outcome for attempt in result.attempts] == ["succeeded"]
    assert result.value["workers"] == [2, 1, 2]  # it ran on with one, and saw the other come back
    assert (result.value["devices"], result.value["processes"], result.value["start"]) == (16, 1, 0)


def test_a_proxy_that_refuses_its_flags_ends_the_job_with_its_words(
    job: Callable[..., Prepared], fresh_pool: Callable[..., list[str]]
) -> None:
    fresh_pool("v6e-8")
    asked = job("v6e-8", params={"steps": 1, "workers": 1}, proxy_flags=("--no_such=1",))
    result = Driving(asked).result()
    assert result.state == "failed" and result.failure is not None
    assert result.failure.kind is FailureKind.REFUSED and len(result.attempts) == 1
    assert "container pathways-proxy does not stay up" in result.failure.message
    assert "a proxy does not know ['no_such']" in result.failure.message


def test_while_no_slice_is_there_the_host_is_pending_and_it_is_said_what_it_waits_for(
    namespace: str, job: Callable[..., Prepared]
) -> None:
    asked = job("v5p-16", params={"steps": 1, "workers": 2})

    async def look() -> tuple[Observation, list[str]]:
        backend = open_backend("pathways")
        attempt = Attempt(job=asked.job, number=1, output=asked.storage.url)
        held = await backend.provision(attempt, Offer(accelerator="v5p-16"))
        assert isinstance(held, Held), held
        plan = backend.plan(attempt, held).hosts
        asked.storage.put("attempts/1/plan.json", plan.to_json())
        handle = await backend.submit(plan, held)
        async with aclosing(backend.observe(handle)) as observing:
            async for seen in observing:
                if seen.waiting is not None and "no node of this kind" in seen.waiting.reason:
                    break
        output = asked.storage.url.rpartition("/")[0]
        found = [remnant.what for remnant in await backend.remnants(output, [asked.job])]
        await backend.stop(handle)
        await backend.forget(handle)
        async with asyncio.timeout(60):
            while await backend.remnants(output, [asked.job]):  # it goes with the last of what it had made
                await asyncio.sleep(0.1)
        return seen, found

    seen, found = asyncio.run(look())
    (host,) = seen.hosts
    assert host.phase is HostPhase.PENDING
    assert found == [f"JobSet 'alone-1' in namespace {namespace!r}"]
