"""What does the Container API say of the node pools of a cluster, and of what is being done to them? In our words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any

from prefect_tpu.infra.gcp.google_api import word
from prefect_tpu.infra.gcp.pool_errors import CANONICAL, Said
from prefect_tpu.infra.gcp.pool_names import Owner, read_owner

CREATE, DELETE = "CREATE_NODE_POOL", "DELETE_NODE_POOL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One node pool. nodes: how many it was asked for. troubles: its conditions. said: its status in words."""

    name: str
    status: str
    nodes: int = 0
    begins_empty: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    troubles: tuple[Said, ...] = ()
    said: str = ""

    @property
    def owner(self) -> Owner | None:
        """None where it is not ours."""
        return read_owner(self.labels)

    @property
    def is_leaving(self) -> bool:
        """Whether Google deletes it already."""
        return self.status == "STOPPING"

    def is_of(self, owner: str, up_to: float = inf) -> bool:
        """Whether a job had it made, for an attempt of at most that number. owner: the hash of the job's folder."""
        found = self.owner
        return found is not None and found.owner == owner and found.attempt <= up_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that is or was done to a cluster or one of its pools; times are seconds since the epoch.

    pool: the name of the node pool; empty where it is about something else.
    said: how far it is, in Google's words.
    failure: why it failed; None where it has not.
    """

    name: str
    kind: str
    pool: str
    is_done: bool
    began: float
    ended: float | None = None
    said: str = ""
    failure: Said | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPools:
    """All pools of one cluster, and the operations on it that Google still tells of."""

    pools: Mapping[str, Pool] = field(default_factory=dict)
    operations: tuple[Operation, ...] = ()

    @property
    def running(self) -> Operation | None:
        """What keeps the cluster from taking anything else now."""
        return min((one for one in self.operations if not one.is_done), key=lambda one: one.began, default=None)

    def newest(self, pool: str, kind: str) -> Operation | None:
        """The last operation of a kind on a pool."""
        found = (one for one in self.operations if one.pool == pool and one.kind == kind)
        return max(found, key=lambda one: one.began, default=None)


def read_pool(pool: Any) -> Pool:
    """A `NodePool` of Google's client."""
    conditions = [condition for condition in pool.conditions if condition.message or condition.code]
    return Pool(
        name=str(pool.name),
        status=word(pool.status),
        nodes=int(pool.initial_node_count),
        begins_empty=bool(pool.autoscaling.enabled),
        labels=dict(pool.config.labels),
        troubles=tuple(_condition(condition) for condition in conditions),
        said=str(pool.status_message),
    )


def read_operation(operation: Any, cluster: str) -> Operation | None:
    """An `Operation` of Google's client; None where it is about another cluster.

    Its target is `…/clusters/NAME` or `…/clusters/NAME/nodePools/NAME`.
    """
    _, _, target = str(operation.target_link).partition("/clusters/")
    name, _, pool = target.partition("/nodePools/")
    if name != cluster:
        return None
    return Operation(
        name=str(operation.name),
        kind=word(operation.operation_type),
        pool=pool,
        is_done=word(operation.status) == "DONE",
        began=read_time(str(operation.start_time)) or 0.0,
        ended=read_time(str(operation.end_time)),
        said=str(operation.detail) or _progress(operation.progress),
        failure=_failure(operation),
    )


def read_time(text: str) -> float | None:
    """Of RFC 3339, as seconds since the epoch; Google gives up to nine digits after the point."""
    try:
        return datetime.fromisoformat(text[:19] + "+00:00").timestamp() if text else None
    except ValueError:
        return None


def _failure(operation: Any) -> Said | None:
    """A failed operation is done like any other, and says so in its error alone."""
    conditions = [one for one in operation.nodepool_conditions if word(one.code) != "UNKNOWN" or one.message]
    if not operation.error.code and not operation.error.message:
        return None
    codes = [word(one.code) for one in conditions if word(one.code) != "UNKNOWN"]
    text = str(operation.error.message) or str(operation.status_message)
    return Said(canonical=_canonical(operation.error.code), condition=codes[0] if codes else "", text=text)


def _condition(condition: Any) -> Said:
    code = word(condition.code)
    canonical = _canonical(int(condition.canonical_code))
    return Said(canonical=canonical, condition="" if code == "UNKNOWN" else code, text=str(condition.message))


def _canonical(number: int) -> str:
    return CANONICAL[number] if 0 < number < len(CANONICAL) else ""


def _progress(progress: Any) -> str:
    """The stages that are under way."""
    stages = [str(stage.name).lower() for stage in progress.stages if word(stage.status) == "RUNNING"]
    return ", ".join(filter(None, stages))
