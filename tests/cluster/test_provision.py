"""Whether a cluster takes a JobSet at all is asked before an attempt begins: a quota passes, a policy does not."""

from __future__ import annotations

import pytest
from cluster import Cluster

from prefect_tpu.infra.backends.base import Attempt, Held, Refused
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.jobset_sending import objection
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer, Waiting

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

OFFER = Offer(accelerator="v6e-16")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def attempt(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    job = SliceJob(
        name="digits",
        program=Program(kind="command", target="true"),
        accelerators=(OFFER.accelerator,),
        backend="jobset",
        pods=PodSettings(image="pod-python", namespace=namespace),
    )
    return Attempt(job=job, number=1, output="/shared/digits")


async def test_a_quota_of_jobsets_is_waited_for(cluster: Cluster, namespace: str, attempt: Attempt) -> None:
    backend = JobSetBackend()
    assert isinstance(await backend.provision(attempt, OFFER), Held)
    quotas, none = f"/api/v1/namespaces/{namespace}/resourcequotas", {"count/jobsets.jobset.x-k8s.io": "0"}
    cluster.api.post(quotas, {"metadata": {"name": "none"}, "spec": {"hard": none}})
    # As the controller of quotas would do, which the control plane of the tests does without.
    cluster.api.patch(f"{quotas}/none/status", {"status": {"hard": none, "used": none}})
    found = await backend.provision(attempt, OFFER)
    assert isinstance(found, Waiting) and "exceeded quota: none" in found.reason
    cluster.api.delete(f"{quotas}/none")
    assert isinstance(await backend.provision(attempt, OFFER), Held)


async def test_what_a_webhook_refuses_is_refused(namespace: str, attempt: Attempt) -> None:
    """JobSet's own: an address of a pod that is too long, which ours never are."""
    backend = JobSetBackend()
    held = await backend.provision(attempt, OFFER)
    assert isinstance(held, Held)
    _, jobset = backend.plan(attempt, held).objects
    jobset["metadata"]["name"] = "x" * 60
    async with Kubernetes() as opened:
        found = await objection(opened, jobset)
    assert isinstance(found, Refused) and "vjobset.kb.io" in found.reason
