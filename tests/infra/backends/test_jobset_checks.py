"""What a cluster lacks for a job is told before anything is sent, all permissions in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from prefect_tpu.infra.backends.jobset_checks import refusal
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.permissions import DRIVING, QUEUEING, permissions
from prefect_tpu.infra.gcp.sharing import Shared
from prefect_tpu.infra.pods import PodSettings

pytestmark = pytest.mark.anyio

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CORE = "/api/v1/namespaces/ml"
FORBIDDEN = 'namespaces "ml" is forbidden: User "u" cannot get resource "namespaces" in API group ""'
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/prefect-tpu"


def allowing(*denied: str) -> Any:
    """Everything is allowed but this, as `verb resource` or `verb resource/part`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = (await request.json())["spec"]["resourceAttributes"]
        part = f"/{asked['subresource']}" if "subresource" in asked else ""
        is_allowed = f"{asked['verb']} {asked['resource']}{part}" not in denied
        return web.json_response({"status": {"allowed": is_allowed}}, status=201)

    return answer


def ready(server: Any, *denied: str) -> None:
    """A cluster that has everything, except these permissions."""
    server.on("POST", REVIEWS, allowing(*denied))
    server.on("GET", CORE, server.json({"metadata": {"name": "ml"}}))
    server.on("GET", JOBSET, absent(server, "jobsets", "prefect-tpu"))


def absent(server: Any, kind: str, name: str) -> Any:
    return server.status(404, "NotFound", f'{kind} "{name}" not found', {"kind": kind, "name": name})


def settings(**more: Any) -> PodSettings:
    return PodSettings(image="x", namespace="ml", **more)


async def test_a_cluster_that_has_everything_refuses_nothing(server: Any, cluster: Kubernetes) -> None:
    ready(server)
    assert await refusal(cluster, settings()) is None
    assert len(server.asked("POST")) == len(permissions(DRIVING))


async def test_many_jobs_of_a_process_ask_together_and_again_what_was_refused(server: Any, cluster: Kubernetes) -> None:
    ready(server, "get pods/log")
    asked = len(permissions(DRIVING))
    with Shared().used():
        assert await refusal(cluster, settings()) is not None
        server.on("POST", REVIEWS, allowing())
        assert [await refusal(cluster, settings()) for _ in range(3)] == [None] * 3
        assert len(server.asked("POST")) == 2 * asked
        assert await refusal(cluster, settings(service_account="default")) is not None, "of which nobody has asked yet"


async def test_every_permission_that_is_missing_is_named(server: Any, cluster: Kubernetes) -> None:
    ready(server, "get pods/log", "delete jobsets")
    said = await refusal(cluster, settings())
    assert said is not None and "in namespace 'ml'" in said and "a role with these verbs" in said
    assert "to delete jobsets.jobset.x-k8s.io, get pods/log: name another namespace" in said


async def test_whoever_may_do_nothing_is_not_read_a_list(server: Any, cluster: Kubernetes) -> None:
    asked = permissions(DRIVING)
    ready(server, *(f"{one.verb} {one.resource.plural}{f'/{one.part}' if one.part else ''}" for one in asked))
    said = await refusal(cluster, settings())
    assert said is not None and f"watch jobsets.jobset.x-k8s.io and {len(asked) - 4} more: name another" in said


async def test_what_a_queue_needs_is_asked_for_where_one_is_named(server: Any, cluster: Kubernetes) -> None:
    ready(server, "patch workloads")
    assert await refusal(cluster, settings()) is None
    said = await refusal(cluster, settings(queue="lq"))
    assert said is not None and "to patch workloads.kueue.x-k8s.io:" in said
    assert len(server.asked("POST")) == 2 * len(permissions(DRIVING)) + len(permissions(QUEUEING))


async def test_a_namespace_that_is_not_there_is_named_before_its_permissions(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", CORE, absent(server, "namespaces", "ml"))
    said = await refusal(cluster, settings())
    assert said is not None and said.startswith("Namespace 'ml' is not in cluster")
    assert server.asked("POST") == []


async def test_a_namespace_that_may_not_be_looked_at_is_believed(server: Any, cluster: Kubernetes) -> None:
    ready(server)
    server.on("GET", CORE, server.status(403, "Forbidden", FORBIDDEN))
    assert await refusal(cluster, settings()) is None


async def test_a_cluster_without_jobset_is_told_how_to_get_it(server: Any, cluster: Kubernetes) -> None:
    ready(server)
    server.on("GET", JOBSET, server.json({}, 404))  # as of a type that is not served
    said = await refusal(cluster, settings())
    assert said is not None and "does not know JobSet: install it (https://jobset.sigs.k8s.io" in said


async def test_a_service_account_that_is_not_there_is_named(server: Any, cluster: Kubernetes) -> None:
    ready(server)
    server.on("GET", f"{CORE}/serviceaccounts/trainer", absent(server, "serviceaccounts", "trainer"))
    said = await refusal(cluster, settings(service_account="trainer"))
    assert said is not None and said.startswith("ServiceAccount 'trainer' is not in namespace 'ml'")
