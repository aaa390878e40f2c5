"""Where in a cluster lie values that a flow must have and nobody else may read? In one Secret of its job.

Made by whoever submits the run, again at each submission; what is random in it is chosen once and stays. Nobody lists
secrets or reads those of others: they are reached by their names.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from prefect_tpu.infra.gcp.adoption import other_owner
from prefect_tpu.infra.gcp.errors import Conflict, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.ownership import JOB, LIFETIME, MANAGED_BY, OURS, OUTPUT, short_hash
from prefect_tpu.infra.gcp.resources import SECRETS

FOLDER = f"{OURS}/folder"  # the hash of the job's folder: another output may have a job of the same name
IDENTITY = (MANAGED_BY, JOB, FOLDER)
Object = dict[str, Any]


def secret_name(job: str) -> str:
    """Of the Secret of a job."""
    return f"{job}-run"


def secret(job: str, folder: str, namespace: str, values: Mapping[str, str], *, lifetime: int) -> Object:
    """The Secret as it is sent.

    lifetime: seconds after its making when it may be deleted, whatever became of the job.
    """
    labels = {MANAGED_BY: OURS, JOB: job, FOLDER: short_hash(folder.encode()), LIFETIME: str(lifetime)}
    metadata = {"name": secret_name(job), "namespace": namespace, "labels": labels, "annotations": {OUTPUT: folder}}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": metadata,
        "type": "Opaque",
        "data": data,
    }


async def ensure_secret(cluster: Kubernetes, wanted: Object, lasting: str) -> None:
    """Make it, or bring what is there up to date.

    lasting: the key whose value stays as it was first.

    Raises:
        Conflict: the name belongs to somebody else, whom the message names.
    """
    metadata = wanted["metadata"]
    try:
        await cluster.create(wanted)
    except Conflict as exc:
        await _check_ours(cluster, wanted, exc)
        newer = {name: value for name, value in wanted["data"].items() if name != lasting}
        await cluster.patch(SECRETS, metadata["name"], metadata["namespace"], {"data": newer})


async def _check_ours(cluster: Kubernetes, wanted: Object, why: Conflict) -> None:
    """Reading is no right of ours; a change that changes nothing answers with the object too."""
    name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
    found = await cluster.patch(SECRETS, name, namespace, {})
    if (other := other_owner(wanted, found, IDENTITY)) is not None:
        raise Conflict(
            f"Secret {name!r} in namespace {namespace!r} of cluster {cluster.cluster} belongs to {other}: delete it,"
            " or run the flow again as a new run.",
            why.answer,
        )


async def remove_secret(cluster: Kubernetes, job: str, folder: str, namespace: str) -> bool:
    """Delete the Secret of the job in this folder, and no other of that name. Whether there was one."""
    wanted = secret(job, folder, namespace, {}, lifetime=0)
    try:
        found = await cluster.patch(SECRETS, secret_name(job), namespace, {})
    except NotFound:
        return False
    if other_owner(wanted, found, IDENTITY) is not None:
        return False
    return await cluster.delete(SECRETS, secret_name(job), namespace, uid=found["metadata"]["uid"])
