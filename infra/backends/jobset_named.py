"""Is there what jobs name: their queue, their service account, the secrets by which nodes fetch images?"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect_tpu.infra.backends.jobset_question import Question
from prefect_tpu.infra.backends.jobset_trial import INSTALL_KUEUE, running_version
from prefect_tpu.infra.checks import Check, fail, ok, warn
from prefect_tpu.infra.gcp.errors import Forbidden, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import LOCAL_QUEUES, SECRETS, SERVICE_ACCOUNTS, Resource

Object = dict[str, Any]
_NAMED = {"ServiceAccount": ("service account", "serviceaccount"), "Secret": ("pull secret", "secret docker-registry")}


async def queue_checks(cluster: Kubernetes, namespace: str, name: str) -> list[Check]:
    try:
        served = await cluster.served(LOCAL_QUEUES)
        found = await cluster.find(LOCAL_QUEUES, name, namespace)
    except NotFound:
        return [fail("kueue", "this cluster does not know Kueue", f"Install it ({INSTALL_KUEUE}), or name no queue.")]
    except Forbidden:
        return [warn("queue", f"{name!r}, which may not be looked at", "See the permissions above.")]
    kueue = ok("kueue", f"{served.api_version}{await running_version(cluster, 'kueue')}")
    if found is None:
        return [
            kueue,
            fail("queue", f"LocalQueue {name!r} is not in namespace {namespace!r}", "Make it, or name another."),
        ]
    return [kueue, queue_check(name, found)]


def queue_check(name: str, queue: Object) -> Check:
    """How a LocalQueue stands, by its own status."""
    status, spec = queue.get("status") or {}, queue["spec"]
    said = (
        f"{name!r} of cluster queue {spec['clusterQueue']!r}: {status.get('pendingWorkloads', 0)} waiting,"
        f" {status.get('admittedWorkloads', 0)} admitted"
    )
    if (stopped := spec.get("stopPolicy", "None")) != "None":
        return fail("queue", f"{said}; stopped ({stopped})", "Nothing is admitted until its stopPolicy is None.")
    active = next((one for one in status.get("conditions") or () if one["type"] == "Active"), None)
    if active is not None and active["status"] != "True":
        return fail("queue", f"{said}; not active: {active.get('message')}", "Mend its ClusterQueue.")
    return ok("queue", said)


async def named_checks(cluster: Kubernetes, question: Question) -> list[Check]:
    """Of secrets only the name is looked at; whoever may not read them is believed."""
    wanted = [(SECRETS, name) for name in question.pull_secrets]
    if question.service_account:
        wanted.insert(0, (SERVICE_ACCOUNTS, question.service_account))
    return await asyncio.gather(*(_named(cluster, resource, name, question.namespace) for resource, name in wanted))


async def _named(cluster: Kubernetes, resource: Resource, name: str, namespace: str) -> Check:
    what, make = _NAMED[resource.kind]
    try:
        found = await cluster.find(resource, name, namespace)
    except Forbidden:
        return ok(what, f"{name!r}, which may not be looked at")
    if found is None:
        advice = f"Make it: kubectl -n {namespace} create {make} {name}"
        return fail(what, f"{name!r} is not in namespace {namespace!r}", advice)
    return ok(what, f"{name!r} is there")
