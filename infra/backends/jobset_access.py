"""May whoever asks do what driving jobs needs? Each permission is asked for, verb by verb."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from prefect_tpu.infra.checks import Check, fail, ok, warn
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.permissions import CHECKING, DRIVING, LOOKING, QUEUEING, Grant, Permission, permissions

NAME = "permissions"


async def permission_checks(cluster: Kubernetes, namespace: str, *, is_queued: bool) -> list[Check]:
    """One finding where all is well, or nothing is; else one for each rule of `deployments/` that is not whole."""
    needed = DRIVING + (QUEUEING if is_queued else ())
    useful = tuple(grant for grant in CHECKING if is_queued or "kueue" not in grant.resource.group)
    asked = [*((grant, namespace) for grant in needed + useful), *((grant, None) for grant in LOOKING)]
    denied = await asyncio.gather(*(denied_permissions(cluster, grant, where) for grant, where in asked))
    if all(denied[: len(needed)]):
        return [stranger(namespace, cluster.namespace)]
    found = [
        judged(grant, [one.verb for one in missing], where, is_needed=grant in needed and where is not None)
        for (grant, where), missing in zip(asked, denied, strict=True)
        if missing
    ]
    if any(check.has_failed for check in found):
        return found
    return [ok(NAME, f"all {len(permissions(needed))} that jobs need in namespace {namespace!r}"), *found]


async def denied_permissions(cluster: Kubernetes, grant: Grant, namespace: str | None) -> tuple[Permission, ...]:
    """What of one rule whoever asks has not: in a namespace, or in the whole cluster."""
    asked = grant.permissions
    answers = await asyncio.gather(*(cluster.may(one.verb, one.resource, namespace, one.part) for one in asked))
    return tuple(one for one, is_allowed in zip(asked, answers, strict=True) if not is_allowed)


def stranger(namespace: str, usual: str) -> Check:
    """Somebody whom nobody gave the role there; often it is the namespace that is wrong.

    usual: the namespace that the kubeconfig's context is for.
    """
    other = f" (your context's is {usual!r})" if usual != namespace else ""
    return fail(
        NAME,
        f"nothing of what jobs need is allowed to you in namespace {namespace!r}",
        f"Name another one with --namespace{other}, or have the role of deployments/gke/rbac.yaml bound to you there.",
    )


def judged(grant: Grant, denied: Sequence[str], namespace: str | None, *, is_needed: bool) -> Check:
    """What is missing of one rule, what it is for, and where it stands."""
    what = f"{grant.resource.full_name}{f'/{grant.part}' if grant.part else ''}"
    where = f"in namespace {namespace!r}" if namespace else "of the whole cluster"
    found = f"no {', '.join(denied)} of {what} {where}: wanted so that {grant.reason}"
    file = "rbac.yaml" if namespace else "rbac-cluster.yaml"
    advice = f"Ask whoever administers the cluster for the rule of deployments/gke/{file}."
    return fail(NAME, found, advice) if is_needed else warn(NAME, found, f"Jobs run without it. {advice}")
