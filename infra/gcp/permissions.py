"""What must whoever drives jobs be allowed to do in a cluster? One table: for the role, the check and the page.

`deployments/gke/rbac.yaml` grants it, `prefect-tpu doctor --cluster` asks for it verb by verb, and no other place names
a verb.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.gcp.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    SERVICE_ACCOUNTS,
    WORKLOADS,
    Resource,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Something that whoever drives a job does to objects of a kind, or to a part of them."""

    verb: str
    resource: Resource
    part: str | None = None

    def __str__(self) -> str:
        return f"{self.verb} {self.resource.full_name}{f'/{self.part}' if self.part else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Some verbs on objects of one kind, and what they are for: without them, this is missing."""

    resource: Resource
    verbs: tuple[str, ...]
    reason: str
    part: str | None = None

    @property
    def permissions(self) -> tuple[Permission, ...]:
        return tuple(Permission(verb=verb, resource=self.resource, part=self.part) for verb in self.verbs)

    @property
    def rule(self) -> dict[str, Any]:
        """As a Role says it."""
        plural = f"{self.resource.plural}/{self.part}" if self.part else self.resource.plural
        return {"apiGroups": [self.resource.group], "resources": [plural], "verbs": list(self.verbs)}


# In the namespace of the jobs, for every job: without any of these none runs.
DRIVING = (
    Grant(
        resource=JOBSETS,
        verbs=("create", "get", "list", "watch", "patch", "delete"),
        reason="attempts are sent, watched, told to stop and removed",
    ),
    Grant(resource=CONFIG_MAPS, verbs=("create", "get", "patch"), reason="hosts get what they run"),
    Grant(resource=PODS, verbs=("list", "watch", "delete"), reason="hosts are watched, and lost ones removed"),
    Grant(resource=PODS, part="log", verbs=("get",), reason="logs are followed"),
    Grant(resource=JOBS, verbs=("list", "watch"), reason="it is seen how a slice ends"),
    Grant(resource=EVENTS, verbs=("list", "watch"), reason="it is said what a job waits for, and why it failed"),
)
# In the same namespace, for jobs that name a queue.
QUEUEING = (
    Grant(
        resource=WORKLOADS,
        verbs=("list", "watch", "patch"),
        reason="the queue's answer is shown, and a job that is told to stop leaves it",
    ),
)
# In the same namespace; without it, what is named wrongly is said while a job waits, and not before it is sent.
CHECKING = (
    Grant(resource=SERVICE_ACCOUNTS, verbs=("get",), reason="a service account that is not there is named"),
    Grant(resource=LOCAL_QUEUES, verbs=("get",), reason="a queue that is not there is named"),
)
# In the same namespace, for whoever runs flows of a work pool beside driving: as deployments/gke/worker.yaml does.
# Secrets are neither listed nor read: no more of them is seen than changing one shows.
WORKING = (
    Grant(
        resource=SECRETS,
        verbs=("create", "patch", "delete"),
        reason="flows get the server's key from a secret of their own, which goes with the job",
    ),
)
# In the same namespace, for whoever only ends what nobody wants any more: the CronJob of deployments/gke/reaper.yaml.
REAPING = (
    Grant(resource=JOBSETS, verbs=("get", "list", "delete"), reason="attempts that nobody wants are found and removed"),
    Grant(resource=PODS, verbs=("list", "delete"), reason="so are their hosts"),
    Grant(resource=PODS, part="log", verbs=("get",), reason="what they wrote last is kept"),
    Grant(resource=CONFIG_MAPS, verbs=("patch",), reason="what they were given goes with the last attempt that has it"),
)
# Of the whole cluster; without them less is known, and jobs run all the same.
LOOKING = (
    Grant(
        resource=NODES,
        verbs=("list", "watch"),
        reason="maintenance, lost nodes and degraded pools are seen as such, and slices counted",
    ),
    Grant(resource=PODS, verbs=("list",), reason="it is said who has the slices that a job waits for"),
    Grant(resource=NAMESPACES, verbs=("get",), reason="a namespace that is not there is named"),
    Grant(resource=DEPLOYMENTS, verbs=("get",), reason="the versions of JobSet and Kueue are told"),
    Grant(resource=CLUSTER_QUEUES, verbs=("get",), reason="what a queue has left is told"),
    Grant(resource=RESOURCE_FLAVORS, verbs=("get",), reason="it is known which of a queue's flavors have such nodes"),
)


def permissions(grants: Iterable[Grant]) -> tuple[Permission, ...]:
    """Verb by verb."""
    return tuple(permission for grant in grants for permission in grant.permissions)


def rules(grants: Iterable[Grant]) -> list[dict[str, Any]]:
    """As a Role says them."""
    return [grant.rule for grant in grants]
