"""Where are the values kept that a run's flow must have and that are written nowhere else?

In a cluster in one Secret of the job, in each cluster where it may run; where hosts are processes of this machine in a
file of the job's folder that only its owner can read.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio.to_thread

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.lifetimes import active_deadline, lifetime
from prefect_tpu.infra.gcp.run_secrets import ensure_secret, remove_secret, secret, secret_name
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.offers import offers_of
from prefect_tpu.infra.storage import Storage


def secret_place(job: str, variable: str) -> str:
    """As `pods.secrets` names it."""
    return f"{secret_name(job)}/{key_of(variable)}"


def key_of(variable: str) -> str:
    """What a variable is called inside the Secret."""
    return layout.REGION_KEY if variable == Env.REGION_KEY else variable


async def keep_secret(storage: Storage, job: SliceJob, values: Mapping[str, str]) -> None:
    """Keep them for the hosts of this job; of what was kept before only the region's key stays as it was.

    Raises `PlatformError` where a place cannot be reached: then no job may be begun that would need it.
    """
    if job.pods is None:
        await anyio.to_thread.run_sync(_keep_here, storage, values, abandon_on_cancel=True)
        return
    for cluster in dict.fromkeys(offer.cluster for offer in offers_of(job)):
        await _keep_there(cluster, storage, job, values)


def _keep_here(storage: Storage, values: Mapping[str, str]) -> None:
    """Both are born readable for their owner alone."""
    storage.put_if_absent(layout.REGION_KEY, values[Env.REGION_KEY].encode())
    others = {name: value for name, value in values.items() if name != Env.REGION_KEY}
    if others or storage.get(layout.SECRETS) is not None:
        storage.put(layout.SECRETS, contract.write_json({"environment": others}))


async def _keep_there(cluster: str | None, storage: Storage, job: SliceJob, values: Mapping[str, str]) -> None:
    """The note comes first, so that no Secret is there of which nothing tells."""
    assert job.pods is not None, "asked by whoever calls"
    note = contract.write_json({"secret": secret_name(job.name)})
    await anyio.to_thread.run_sync(storage.put_if_absent, layout.SECRET_KEPT, note, abandon_on_cancel=True)
    kept = {key_of(name): value for name, value in values.items()}
    wanted = secret(job.name, storage.url, job.pods.namespace, kept, lifetime=_lifetime(job))
    async with Kubernetes(cluster) as opened:
        await ensure_secret(opened, wanted, layout.REGION_KEY)


def _lifetime(job: SliceJob) -> int:
    """Seconds until no attempt can need it, were each as long as may be."""
    assert job.pods is not None, "asked by whoever calls"
    longest = lifetime(active_deadline(job.provision_timeout, job.deadline, job.grace), job.pods.ttl)
    return longest * (1 + job.max_preemptions + job.max_failures)


async def forget_secret(storage: Storage, job: SliceJob) -> None:
    """Remove what was kept for this job, once its end is final. Nothing happens where nothing is there."""
    if job.pods is None:
        await anyio.to_thread.run_sync(storage.delete, layout.SECRETS)
        return
    for cluster in dict.fromkeys(offer.cluster for offer in offers_of(job)):
        async with Kubernetes(cluster) as opened:
            await remove_secret(opened, job.name, storage.url, job.pods.namespace)
    await anyio.to_thread.run_sync(storage.delete, layout.SECRET_KEPT)
