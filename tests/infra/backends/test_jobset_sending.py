"""A JobSet that a cluster does not take is known before an attempt begins: for now, or for good."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.backends.jobset_sending import objection
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.ownership import IDENTITY, OUTPUT, PLAN
from prefect_tpu.infra.gcp.pool_names import owner_hash
from prefect_tpu.infra.state import Waiting

pytestmark = pytest.mark.anyio

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets"
JOBSET: dict[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "digits-1", "namespace": "ml"},
    "spec": {},
}
DETAILS = {"kind": "jobsets", "name": "digits-1"}
QUOTA = 'jobsets.jobset.x-k8s.io "digits-1" is forbidden: exceeded quota: few, requested: 1, used: 3, limited: 3'
POLICY = "admission webhook denied the request: no owner label"


async def tried(server: Any, cluster: Kubernetes, code: int, reason: str, said: str, *, is_there: bool = False) -> Any:
    server.on("POST", JOBSETS, server.status(code, reason, said, DETAILS))
    there = server.json(JOBSET) if is_there else server.status(404, "NotFound", "not found", DETAILS)
    server.on("GET", f"{JOBSETS}/digits-1", there)
    return await objection(cluster, JOBSET)


async def test_one_that_is_taken_is_only_tried(server: Any, cluster: Kubernetes) -> None:
    server.on("POST", JOBSETS, server.json(JOBSET, 201))
    assert await objection(cluster, JOBSET) is None
    assert [query for query, _ in server.asked("POST")] == [{"dryRun": "All"}]


async def test_a_quota_that_is_used_up_is_waited_for(server: Any, cluster: Kubernetes) -> None:
    found = await tried(server, cluster, 403, "Forbidden", QUOTA)
    assert isinstance(found, Waiting) and "namespace 'ml'" in found.reason and "used: 3, limited: 3" in found.reason
    assert found.kind is FailureKind.NO_QUOTA


async def test_what_a_policy_refuses_is_refused_for_good(server: Any, cluster: Kubernetes) -> None:
    found = await tried(server, cluster, 400, "BadRequest", POLICY)
    assert isinstance(found, Refused) and "JobSet 'digits-1'" in found.reason and "no owner label" in found.reason


@pytest.mark.parametrize(("code", "reason", "said"), [(403, "Forbidden", QUOTA), (400, "BadRequest", POLICY)])
async def test_one_that_is_there_was_let_in_whatever_is_said_since(
    server: Any, cluster: Kubernetes, code: int, reason: str, said: str
) -> None:
    assert await tried(server, cluster, code, reason, said, is_there=True) is None


async def test_one_whose_name_is_there_is_left_to_whoever_sends(server: Any, cluster: Kubernetes) -> None:
    assert await tried(server, cluster, 409, "AlreadyExists", "already exists", is_there=True) is None


async def test_one_whose_name_belongs_to_another_output_is_refused_before_anything_is_made(
    server: Any, cluster: Kubernetes
) -> None:
    mine, other = ({**JOBSET["metadata"], **owned} for owned in (of("gs://bucket/jobs"), of("gs://bucket/others")))
    server.on("POST", JOBSETS, server.status(409, "AlreadyExists", "already exists", DETAILS))
    server.on("GET", f"{JOBSETS}/digits-1", server.json({**JOBSET, "metadata": other}))
    found = await objection(cluster, {**JOBSET, "metadata": mine})
    assert isinstance(found, Refused) and found.is_barred
    assert "exists and belongs to the job in gs://bucket/others/digits: choose another name" in found.reason


async def test_one_of_the_same_attempt_is_its_own_whatever_its_plan_says(server: Any, cluster: Kubernetes) -> None:
    """A driver that comes back to an attempt does not know yet which checkpoint it began from."""
    mine, sent = {**JOBSET["metadata"], **of("gs://bucket/jobs")}, of("gs://bucket/jobs")
    found = {**JOBSET["metadata"], **sent, "labels": {**sent["labels"], PLAN: "another"}}
    server.on("POST", JOBSETS, server.status(409, "AlreadyExists", "already exists", DETAILS))
    server.on("GET", f"{JOBSETS}/digits-1", server.json({**JOBSET, "metadata": found}))
    assert await objection(cluster, {**JOBSET, "metadata": mine}) is None


def of(output: str) -> dict[str, Any]:
    """By which a job of this output is known."""
    folder = f"{output}/digits"
    return {"labels": dict.fromkeys(IDENTITY, owner_hash(folder)), "annotations": {OUTPUT: folder}}
