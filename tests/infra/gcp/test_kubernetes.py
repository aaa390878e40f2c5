"""What is sent again, what is not, and whose an object is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.gcp.calls import MERGE_PATCH, STRATEGIC_PATCH
from prefect_tpu.infra.gcp.errors import Conflict, NotFound, Refused, Unavailable
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.ownership import OUTPUT
from prefect_tpu.infra.gcp.patience import Patience
from prefect_tpu.infra.gcp.resources import PODS, WORKLOADS, Selection

pytestmark = pytest.mark.anyio
PODS_PATH = "/api/v1/namespaces/research/pods"
POD_PATH = f"{PODS_PATH}/a"
OWNER = ("job", "attempt")
Make = Callable[..., dict[str, Any]]

EXISTS = 'pods "a" already exists'
MISSING = 'pods "a" not found'


def owned(make_pod: Make, job: str = "digits", **metadata: Any) -> dict[str, Any]:
    return make_pod("a", labels={"job": job, "attempt": "1"}, **metadata)


def not_found(server: Any) -> Any:
    return server.status(404, "NotFound", MISSING, {"name": "a", "kind": "pods"})


def exists(server: Any) -> Any:
    return server.status(409, "AlreadyExists", EXISTS, {"name": "a", "kind": "pods"})


async def test_reading_is_repeated(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    broken = server.status(500, "InternalError", "etcdserver: request timed out")
    garbled = server.stream("<html>bad gateway</html>")
    server.on("GET", POD_PATH, broken, server.drop(), garbled, server.json(make_pod("a")))
    assert await cluster.get(PODS, "a", "research") == make_pod("a")
    assert server.tokens == ["Bearer secret-token"] * 4


async def test_what_is_not_there_is_no_error_to_find(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", POD_PATH, not_found(server))
    assert await cluster.find(PODS, "a", "research") is None
    with pytest.raises(NotFound, match="Could not get Pod 'a' in namespace 'research' of cluster 'test'") as caught:
        await cluster.get(PODS, "a", "research")
    assert not caught.value.is_type


async def test_a_list_is_read_in_pages(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    pages = (server.items(make_pod("a"), next_page="more"), server.items(make_pod("b")))
    server.on("GET", PODS_PATH, *pages)
    found = await cluster.list_all(Selection(resource=PODS, namespace="research", fields="spec.nodeName=n"))
    assert found == (make_pod("a"), make_pod("b"))
    first = {"fieldSelector": "spec.nodeName=n", "limit": "500"}
    assert [query for query, _ in server.asked("GET")] == [first, {**first, "continue": "more"}]


async def test_pages_that_expired_are_read_as_one_piece(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    expired = server.status(410, "Expired", "the provided continue parameter is too old")
    pages = (server.items(make_pod("a"), next_page="more"), expired, server.items(make_pod("a"), make_pod("b")))
    server.on("GET", PODS_PATH, *pages)
    found = await cluster.list_all(Selection(resource=PODS, namespace="research"))
    assert found == (make_pod("a"), make_pod("b"))
    assert server.asked("GET")[-1][0] == {}


async def test_items_of_a_list_say_what_they_are(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", PODS_PATH, server.items({"metadata": {"name": "a"}}))
    (found,) = await cluster.list_all(Selection(resource=PODS, namespace="research"))
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")


async def test_an_object_is_made_once(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on("POST", PODS_PATH, server.json(owned(make_pod, resourceVersion="5"), 201))
    made = await cluster.create_or_adopt(owned(make_pod), OWNER)
    assert made["metadata"]["resourceVersion"] == "5"
    assert server.asked("POST") == [({}, owned(make_pod))]


@pytest.mark.parametrize("how", ["error", "drop", "exists"])
async def test_an_object_that_was_made_before_is_adopted(
    server: Any, cluster: Kubernetes, make_pod: Make, how: str
) -> None:
    failed = {
        "error": server.status(500, "InternalError", "etcdserver: request timed out"),
        "drop": server.drop(),
        "exists": exists(server),
    }
    server.on("POST", PODS_PATH, failed[how])
    server.on("GET", POD_PATH, server.json(owned(make_pod)))
    assert await cluster.create_or_adopt(owned(make_pod), OWNER) == owned(make_pod)
    assert len(server.asked("POST")) == 1


async def test_an_object_that_did_not_arrive_is_sent_again(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on("POST", PODS_PATH, server.drop(), exists(server), server.json(owned(make_pod), 201))
    server.on("GET", POD_PATH, not_found(server))  # the second time: gone between the two requests
    assert await cluster.create_or_adopt(owned(make_pod), OWNER) == owned(make_pod)
    assert len(server.asked("POST")) == 3


async def test_an_object_of_somebody_else_is_left_alone(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on("POST", PODS_PATH, exists(server))
    server.on("GET", POD_PATH, server.json(owned(make_pod, "letters")))
    with pytest.raises(Conflict, match="Pod 'a' in namespace 'research' .* belongs to job='letters': choose"):
        await cluster.create_or_adopt(owned(make_pod), OWNER)
    assert len(server.asked("POST")) == 1


async def test_whose_the_object_is_of_a_job_with_the_same_name_is_said_by_its_output(
    server: Any, cluster: Kubernetes, make_pod: Make
) -> None:
    def below(output: str, job: str) -> dict[str, Any]:
        return owned(make_pod, job, annotations={OUTPUT: f"gs://bucket/{output}/digits"})

    server.on("POST", PODS_PATH, exists(server))
    server.on("GET", POD_PATH, server.json(below("theirs", "letters")))
    with pytest.raises(Conflict, match="exists and belongs to the job in gs://bucket/theirs/digits: choose another"):
        await cluster.create_or_adopt(below("mine", "digits"), OWNER)


async def test_an_object_of_another_parent_is_left_alone(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    def of(uid: str) -> dict[str, Any]:
        return owned(make_pod, ownerReferences=[{"kind": "JobSet", "name": "digits-1", "uid": uid}])

    server.on("POST", PODS_PATH, exists(server))
    server.on("GET", POD_PATH, server.json(of("earlier")))
    with pytest.raises(Conflict, match=r"belongs to JobSet 'digits-1' \(earlier\)"):
        await cluster.create_or_adopt(of("mine"), OWNER)


async def test_a_name_is_waited_for_while_its_object_ends(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on("POST", PODS_PATH, exists(server), exists(server), server.json(owned(make_pod), 201))
    server.on("GET", POD_PATH, server.json(owned(make_pod, deletionTimestamp="2026-01-01T00:00:00Z")))
    assert await cluster.create_or_adopt(owned(make_pod), OWNER) == owned(make_pod)


async def test_a_name_that_does_not_become_free_is_said(
    server: Any, kubeconfig: Callable[..., Path], make_pod: Make
) -> None:
    kubeconfig(server.url)
    server.on("POST", PODS_PATH, exists(server))
    server.on("GET", POD_PATH, server.json(owned(make_pod, deletionTimestamp="2026-01-01T00:00:00Z")))
    async with Kubernetes(patience=Patience(retry=0.2, first_pause=0.01, longest_pause=0.05)) as cluster:
        with pytest.raises(Conflict, match="was deleted and has not ended yet"):
            await cluster.create_or_adopt(owned(make_pod), OWNER)


async def test_a_busy_api_server_is_obeyed(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    busy = server.json("too many requests", 429, **{"Retry-After": "0"})
    server.on("POST", PODS_PATH, busy, busy, server.json(make_pod("a"), 201))
    assert await cluster.create(make_pod("a")) == make_pod("a")


async def test_what_may_have_happened_is_not_done_twice(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on("POST", PODS_PATH, server.status(500, "InternalError", "etcdserver: request timed out"))
    with pytest.raises(Unavailable):
        await cluster.create(make_pod("a"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
async def test_what_an_object_shall_be_is_said_again(server: Any, cluster: Kubernetes, content_type: str) -> None:
    broken = server.status(500, "InternalError", "etcdserver: request timed out")
    server.on("PATCH", POD_PATH, broken, server.drop(), server.json({"kind": "Pod"}))
    change = {"metadata": {"labels": {"x": "y"}}}
    assert await cluster.patch(PODS, "a", "research", change, content_type=content_type) == {"kind": "Pod"}
    assert len(server.requests) == 3


async def test_what_is_only_tried_is_tried_again(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on("POST", PODS_PATH, server.drop(), server.json(make_pod("a"), 201))
    assert await cluster.dry_run(make_pod("a")) == make_pod("a")


async def test_what_a_webhook_says_is_passed_on(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    said = 'admission webhook "vjobset.kb.io" denied the request: spec.replicatedJobs: too long'
    server.on("POST", PODS_PATH, server.status(403, "Forbidden", said))
    with pytest.raises(Refused, match="too long") as caught:
        await cluster.dry_run(make_pod("a"))
    assert caught.value.said == said
    assert server.asked("POST") == [({"dryRun": "All"}, make_pod("a"))]


async def test_exactly_one_object_is_deleted(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    broken = server.status(500, "InternalError", "etcdserver: request timed out")
    server.on("GET", POD_PATH, server.json(make_pod("a")))
    server.on("DELETE", POD_PATH, broken, server.drop(), server.json(make_pod("a")))
    assert await cluster.delete(PODS, "a", "research", grace=3)
    body = {"propagationPolicy": "Background", "preconditions": {"uid": "uid-a"}, "gracePeriodSeconds": 3}
    assert server.asked("DELETE") == [({}, body)] * 3


async def test_what_is_gone_needs_no_deletion(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", POD_PATH, not_found(server))
    assert not await cluster.delete(PODS, "a", "research")
    another = "Precondition failed: UID in precondition: uid-a, UID in object meta: uid-b"
    server.on("DELETE", POD_PATH, server.status(409, "Conflict", another, {"name": "a"}), not_found(server))
    assert not await cluster.delete(PODS, "a", "research", uid="uid-a")
    assert not await cluster.delete(PODS, "a", "research", uid="uid-a")


async def test_an_object_that_is_changed_meanwhile_is_deleted_all_the_same(
    server: Any, cluster: Kubernetes, make_pod: Make
) -> None:
    """The API server says conflict to both: of a name that has passed to another object it says so each time."""
    changed = server.status(409, "Conflict", "the object has been modified", {"name": "a"})
    server.on("DELETE", POD_PATH, changed, changed, server.json(make_pod("a")))
    assert await cluster.delete(PODS, "a", "research", uid="uid-a")
    assert len(server.asked("DELETE")) == 3


async def test_an_object_that_others_change_too_is_changed_all_the_same(server: Any, cluster: Kubernetes) -> None:
    changed = server.status(409, "Conflict", "the object has been modified", {"name": "a"})
    server.on("PATCH", POD_PATH, changed, server.json({"metadata": {"name": "a"}}))
    assert (await cluster.patch(PODS, "a", "research", {"metadata": {}}))["metadata"]["name"] == "a"
    server.on("PATCH", POD_PATH, changed)
    with pytest.raises(Conflict, match="the object has been modified"):
        await cluster.patch(PODS, "a", "research", {"metadata": {}})


async def test_the_version_that_is_served_is_used(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", "/apis/kueue.x-k8s.io/v1beta1", server.json({"resources": [{"name": "workloads"}]}))
    server.on("GET", "/apis/kueue.x-k8s.io/v1beta1/namespaces/research/workloads", server.items())
    assert await cluster.list_all(Selection(resource=WORKLOADS, namespace="research")) == ()
    assert (await cluster.served(WORKLOADS)).api_version == "kueue.x-k8s.io/v1beta1"
    assert len(server.asked("GET", "v1beta1")) == 1


async def test_a_type_that_no_version_serves_is_said(cluster: Kubernetes) -> None:
    with pytest.raises(NotFound, match="does not serve workloads.kueue.x-k8s.io in v1beta2 or v1beta1"):
        await cluster.served(WORKLOADS)


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_permission_is_asked_for(server: Any, cluster: Kubernetes, allowed: bool) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    server.on("POST", path, server.json({"status": {"allowed": allowed}}, 201))
    assert await cluster.may("get", PODS, "research", "log") is allowed
    ((_, review),) = server.asked("POST")
    attributes = {"verb": "get", "group": "", "resource": "pods", "namespace": "research", "subresource": "log"}
    assert review["spec"]["resourceAttributes"] == attributes


async def test_a_question_for_a_permission_is_repeated(server: Any, cluster: Kubernetes) -> None:
    """It is asked by creating something that is never kept, so a second time does no harm."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    broken = server.status(500, "InternalError", "etcdserver: leader changed")
    server.on("POST", path, broken, server.drop(), server.json({"status": {"allowed": True}}, 201))
    assert await cluster.may("get", PODS, "research", "log")


async def test_a_client_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with Kubernetes"):
        await Kubernetes().find(PODS, "a", "research")
