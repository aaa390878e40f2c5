"""Is a cluster fit for jobs? Everything `prefect-tpu doctor --cluster` asks of it; nothing is made or changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.jobset_access import permission_checks
from prefect_tpu.infra.backends.jobset_checks import unknown_to_gke
from prefect_tpu.infra.backends.jobset_named import named_checks, queue_checks
from prefect_tpu.infra.backends.jobset_pool_trial import pool_checks
from prefect_tpu.infra.backends.jobset_question import Question
from prefect_tpu.infra.backends.jobset_quota import rulings
from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion
from prefect_tpu.infra.backends.jobset_reading import holders, read_node
from prefect_tpu.infra.backends.jobset_slices import judged, slices_of
from prefect_tpu.infra.backends.jobset_trial import jobset_checks
from prefect_tpu.infra.checks import Check, fail, ok, warn
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.gcp.errors import Forbidden
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.placement import chip_labels
from prefect_tpu.infra.gcp.pool_names import POOLS
from prefect_tpu.infra.gcp.resources import NAMESPACES, NODES, PODS, Selection, with_labels
from prefect_tpu.infra.policy.quota import NO_CAPACITY_SAID, Fit, Ruling

ALL_SECONDS = 30.0


async def examine(question: Question) -> Sequence[Check]:
    """All findings, in the order to be told; whatever does not answer says so itself."""
    from prefect_tpu.infra.gcp.patience import Patience  # it loads what only a cluster needs

    impatient = Patience(connect=5.0, request=10.0, retry=2.0)
    try:
        async with asyncio.timeout(ALL_SECONDS), Kubernetes(question.cluster, impatient) as cluster:
            return [await _reach(cluster), *await _look(cluster, question)]
    except PrefectTpuError as exc:
        return [fail("cluster", str(exc), "Name another one with --cluster, or mend how it is reached.")]
    except TimeoutError:
        return [fail("cluster", f"did not answer within {ALL_SECONDS:.0f} s", "Look at the way to its API server.")]


async def _reach(cluster: Kubernetes) -> Check:
    await cluster.version()  # opens the connection, which is no part of an answer's time
    began = time.monotonic()
    version = await cluster.version()
    return ok("cluster", f"{cluster.cluster}, {version}, answers in {(time.monotonic() - began) * 1000:.0f} ms")


async def _look(cluster: Kubernetes, question: Question) -> list[Check]:
    """Side by side, told in this order."""
    looks: list[Awaitable[list[Check]]] = [
        _namespace(cluster, question.namespace),
        permission_checks(cluster, question.namespace, is_queued=question.queue is not None),
        jobset_checks(cluster, question),
        *([queue_checks(cluster, question.namespace, question.queue)] if question.queue else []),
        named_checks(cluster, question),
        pool_checks(question.cluster),
        *(_slices(cluster, name) for name in question.accelerators if not question.make_pools),
        *(_quota(question, name) for name in question.accelerators),
    ]
    return [check for found in await asyncio.gather(*looks) for check in found]


async def _namespace(cluster: Kubernetes, name: str) -> list[Check]:
    try:
        found = await cluster.find(NAMESPACES, name)
    except Forbidden:
        return [ok("namespace", f"{name!r}, which may not be looked at")]
    if found is None:
        return [fail("namespace", f"{name!r} is not there", f"Make it: kubectl create namespace {name}")]
    return [ok("namespace", repr(name))]


async def _slices(cluster: Kubernetes, accelerator: str) -> list[Check]:
    shape = resolve(accelerator)
    if why := unknown_to_gke(accelerator, shape):
        return [fail(f"slices of {accelerator}", why, "prefect-tpu accelerators lists them.")]
    try:
        labels = f"{with_labels(chip_labels(shape))},!{POOLS}"  # what was made for an attempt takes nobody else
        nodes = await cluster.list_all(Selection(resource=NODES, labels=labels))
    except Forbidden:
        found = "nodes may not be looked at, so slices cannot be counted"
        return [warn(f"slices of {accelerator}", found, "Jobs run without it. See deployments/gke/rbac-cluster.yaml.")]
    slices = slices_of(shape.hosts, map(read_node, nodes), await _taken(cluster))
    return [judged(accelerator, slices, wants_spot=shape.capacity == "spot")]


async def _quota(question: Question, accelerator: str) -> list[Check]:
    """What would be allowed beside what is there; a queue that never admits it is a failure."""
    asked = asked_of_quota(question, accelerator)
    return [quota_check(f"quota of {accelerator}", ruling) for ruling in await rulings(asked)]


def asked_of_quota(question: Question, accelerator: str) -> QuotaQuestion:
    """The same as `prefect-tpu quota` asks."""
    return QuotaQuestion(
        shape=resolve(accelerator),
        cluster=question.cluster,
        zone=question.zone,
        namespace=question.namespace,
        queue=question.queue,
        reservation=question.reservation,
        makes_pools=question.make_pools,
    )


def quota_check(name: str, ruling: Ruling) -> Check:
    """A ruling as a finding. Jobs may run where more quota would not be had: on nodes that are there."""
    if ruling.fit is Fit.FITS:
        return ok(name, f"{ruling.said}. {NO_CAPACITY_SAID}")
    said = f"{ruling.fit}: {ruling.said}"
    return fail(name, said, ruling.advice) if ruling.is_for_good else warn(name, said, ruling.advice)


async def _taken(cluster: Kubernetes) -> dict[str, str] | None:
    try:
        pods = await cluster.list_all(Selection(resource=PODS))
    except Forbidden:
        return None
    return holders(pods)
