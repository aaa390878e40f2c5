"""Slices on node pools that are made for them: the real scheduler keeps to them, and they go with their attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import container
import pytest
import yaml
from cluster import Cluster
from driven import Driving, Prepared, prepared
from objects import TPU_TOLERATION, Namespace, pod

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Held
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.jobset_doctor import examine
from prefect_tpu.infra.backends.jobset_question import Question
from prefect_tpu.infra.gcp.placement import POOL
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.waiting import read_waiting
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.offers import offers_of
from prefect_tpu.infra.request import Request
from prefect_tpu.infra.state import Waiting

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CONTEXT = "gke_project-of-tests_us-east5-b_tests"  # as gcloud would name it
PLACE = "projects/project-of-tests/locations/us-east5-b/clusters/tests"
TWO_HOSTS = "v6e-8@ct6e-standard-4t"
ALL_CHIPS = {"resources": {"limits": {"google.com/tpu": "4"}}}  # of one host


@pytest.fixture
def google(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[container.Google]:
    """Google around this cluster: the nodes of its pools are this cluster's."""
    known = yaml.safe_load(cluster.kubeconfig.read_text())
    known["contexts"] = [{**known["contexts"][0], "name": CONTEXT}]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({**known, "current-context": CONTEXT}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    with container.running(machines=cluster.kubelet) as fake:
        fake.add_cluster(PLACE)
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake
        assert fake.errors == []


@pytest.fixture
def job(cluster: Cluster, namespace: str, machine: Any) -> Callable[..., Prepared]:
    """A job in pools of its own that is laid down, and not driven yet."""
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))

    def make(
        name: str, command: str, *, accelerator: str = TWO_HOSTS, slices: int = 1, make_pools: bool = True
    ) -> Prepared:
        pods = PodSettings(
            image="pod-python",
            python="python",
            cluster=CONTEXT,
            namespace=namespace,
            cpu="100m",
            memory="500Mi",
            volumes={str(machine.output): f"gs://{namespace}"},
            make_pools=make_pools,
        )
        return prepared(
            Request(
                name=name,
                program="sh",
                arguments=("-c", command),
                accelerators=(accelerator,),
                output=str(machine.output),
                settings={"backend": "jobset", "pods": pods, "grace": 2.0, "slices": slices},
            )
        )

    return make


def test_each_slice_has_a_pool_to_itself_and_all_go_with_the_job(
    google: container.Google,
    job: Callable[..., Prepared],
    cluster: Cluster,
    namespace: str,
    until: Callable[..., Any],
) -> None:
    made = job("pools", "sleep 600", slices=2)
    driving = Driving(made)
    pods = until(lambda: running(cluster, namespace, 4), "four hosts")
    pools: dict[str, set[str]] = {}
    for one in pods:
        node = cluster.api.get(f"/api/v1/nodes/{one['spec']['nodeName']}")
        index = one["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]
        pools.setdefault(index, set()).add(node["metadata"]["labels"][POOL])
    assert [len(names) for names in pools.values()] == [1, 1]
    assert set.union(*pools.values()) == {name.rpartition("/")[2] for name in google.pools}
    history.ask_to_stop(made.storage, "enough")
    assert driving.result().state == "stopped"
    until(lambda: not google.pools, "the end of the pools")


def test_a_slice_that_is_let_go_stays_for_as_long_as_its_attempt_lives(
    google: container.Google,
    job: Callable[..., Prepared],
    cluster: Cluster,
    namespace: str,
    until: Callable[..., Any],
) -> None:
    """Whoever drives may go while the attempt waits for its pods: the pools go when somebody closes it."""
    made = job("stays", "sleep 600")
    attempt = Attempt(job=made.job, number=1, output=made.storage.url)

    async def run() -> None:
        backend = JobSetBackend()
        held = await hold(backend, attempt)
        plan = backend.plan(attempt, held).hosts
        made.storage.put_if_absent(layout.plan(1), plan.to_json())
        handle = await backend.submit(plan, held)
        await backend.release(held)
        assert {pool.status.name for pool in google.pools.values()} == {"RUNNING"}
        again = JobSetBackend()  # of another process, which holds nothing
        assert isinstance(await again.provision(attempt, offers_of(made.job)[0]), Held)
        await again.forget(handle)
        await again.forget(handle)

    asyncio.run(run())
    until(lambda: not google.pools, "the end of the pool")


def test_a_slice_that_was_never_used_is_given_back_at_once(
    google: container.Google, job: Callable[..., Prepared], until: Callable[..., Any]
) -> None:
    made = job("unused", "true")
    attempt = Attempt(job=made.job, number=1, output=made.storage.url)

    async def run() -> None:
        backend = JobSetBackend()
        await backend.release(await hold(backend, attempt))

    asyncio.run(run())
    until(lambda: not google.pools, "the end of the pool")


def test_pods_of_others_wait_though_the_slice_that_was_made_for_a_job_has_room_for_them(
    google: container.Google,
    job: Callable[..., Prepared],
    cluster: Cluster,
    namespace: str,
    until: Callable[..., Any],
) -> None:
    """Of anybody who tolerates the taint of chips, and of a job of ours that takes any nodes."""
    owner, other = job("owner", "sleep 600"), job("other", "true", make_pools=False)
    attempt, here = Attempt(job=owner.job, number=1, output=owner.storage.url), Namespace(cluster.api, namespace)

    async def run() -> None:
        backend = JobSetBackend()
        held = await hold(backend, attempt)
        await asyncio.to_thread(until, lambda: are_ready(cluster, google), "the nodes of the pool")
        here.make(pod("anybody", "true", container=ALL_CHIPS, tolerations=[TPU_TOLERATION]))
        driving = Driving(other)
        await asyncio.to_thread(until, lambda: is_kept_off(here, "anybody"), "what keeps anybody off")
        await asyncio.to_thread(until, lambda: waits_for_a_taint(other), "what keeps the other job off")
        plan = backend.plan(attempt, held).hosts
        owner.storage.put_if_absent(layout.plan(1), plan.to_json())
        handle = await backend.submit(plan, held)
        await asyncio.to_thread(until, lambda: running(cluster, namespace, 2), "the owner's two hosts")
        assert {one["spec"]["nodeName"] for one in here.of("owner-1")} == nodes_of(google)
        assert not here.pod("anybody")["spec"].get("nodeName")
        history.ask_to_stop(other.storage, "enough")
        assert (await asyncio.to_thread(driving.result)).state == "stopped"
        await backend.release(held)
        await backend.forget(handle)

    asyncio.run(run())
    until(lambda: not google.pools, "the end of the pool")


def test_the_doctor_counts_no_slice_that_was_made_for_a_job(
    google: container.Google,
    job: Callable[..., Prepared],
    cluster: Cluster,
    namespace: str,
    until: Callable[..., Any],
) -> None:
    made = job("owner", "true")
    attempt = Attempt(job=made.job, number=1, output=made.storage.url)

    async def slices() -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
            found = await examine(Question(namespace=namespace, accelerators=(TWO_HOSTS,)))
        return next(check.found for check in found if check.name == f"slices of {TWO_HOSTS}")

    async def run() -> None:
        before, backend = await slices(), JobSetBackend()
        held = await hold(backend, attempt)
        await asyncio.to_thread(until, lambda: are_ready(cluster, google), "the nodes of the pool")
        assert await slices() == before
        await backend.release(held)

    asyncio.run(run())
    until(lambda: not google.pools, "the end of the pool")


def nodes_of(google: container.Google) -> set[str]:
    return {node for pool in google.pools for node in google.nodes_of(pool)}


def are_ready(cluster: Cluster, google: container.Google) -> bool:
    """Whether both take pods by now."""
    nodes = [cluster.api.get(f"/api/v1/nodes/{name}") for name in nodes_of(google)]
    keys = [taint["key"] for node in nodes for taint in node["spec"]["taints"]]
    return len(nodes) == 2 and not any(key.startswith("node.kubernetes.io/") for key in keys)


def is_kept_off(here: Namespace, name: str) -> bool:
    """Whether the scheduler has looked at all nodes for a pod, in vain."""
    said = (here.condition(name, "PodScheduled") or {}).get("message", "")
    return "had untolerated taint(s)" in said


def waits_for_a_taint(job: Prepared) -> bool:
    return "closed by a taint" in (read_waiting(job.storage, 1) or "")


async def hold(backend: JobSetBackend, attempt: Attempt) -> Held:
    offer = offers_of(attempt.job)[0]
    async with asyncio.timeout(120):
        while isinstance(answer := await backend.provision(attempt, offer), Waiting):
            await asyncio.sleep(0.05)
    assert isinstance(answer, Held), answer
    return answer


def running(cluster: Cluster, namespace: str, count: int) -> list[dict[str, Any]] | None:
    found = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    begun = [pod for pod in found if pod["status"].get("phase") == "Running"]
    return begun if len(begun) == count else None
