"""What must each account be allowed to do in Google Cloud? One table: for Terraform, for messages and for the page.

What it may do in the cluster itself is another matter: permissions.py. Which permission a call of the Container API
needs: https://cloud.google.com/kubernetes-engine/docs/reference/api-permissions, read 2026-11-28. Node pools have none
of their own: whoever makes one may change the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Place = Literal["project", "bucket", "node account"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleGrant:
    """Permissions for something, and what they are for: without them, this is missing."""

    permissions: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleRole:
    """A role of Google's own, on the least that it can be given on."""

    role: str
    on: Place
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleAccount:
    """Somebody to Google: a service account, known in the cluster by the same name where it has one there."""

    name: str
    grants: tuple[GoogleGrant, ...] = ()
    roles: tuple[GoogleRole, ...] = ()

    @property
    def permissions(self) -> tuple[str, ...]:
        """Those of a role that we make, for no role of Google's has so few."""
        return tuple(permission for grant in self.grants for permission in grant.permissions)


REACHING = GoogleGrant(
    permissions=("container.clusters.get", "container.clusters.connect"),
    reason="the cluster's address is found, and its pools are seen",
)
MAKING_POOLS = GoogleGrant(
    permissions=("container.clusters.update", "container.operations.get", "container.operations.list"),
    reason="node pools are made and given back",
)
_BUCKET = GoogleRole(role="roles/storage.objectUser", on="bucket", reason="jobs, checkpoints and results lie there")

_DRIVING = (
    _BUCKET,
    GoogleRole(role="roles/cloudquotas.viewer", on="project", reason="it is said how many chips there may be"),
    GoogleRole(role="roles/monitoring.viewer", on="project", reason="it is said how many of them are in use"),
    GoogleRole(role="roles/iam.serviceAccountUser", on="node account", reason="the nodes of a pool run as it"),
)

DRIVER = GoogleAccount(name="prefect-tpu-driver", grants=(REACHING, MAKING_POOLS), roles=_DRIVING)
# The same to Google; in the cluster it may keep secrets, which whoever only drives jobs need not.
WORKER = GoogleAccount(name="prefect-tpu-worker", grants=(REACHING, MAKING_POOLS), roles=_DRIVING)
HOST = GoogleAccount(name="prefect-tpu-host", roles=(_BUCKET,))
REAPER = GoogleAccount(name="prefect-tpu-reaper", grants=(REACHING, MAKING_POOLS), roles=(_BUCKET,))
NODE = GoogleAccount(
    name="prefect-tpu-node",
    roles=(
        GoogleRole(
            role="roles/container.defaultNodeServiceAccount", on="project", reason="nodes write logs and metrics"
        ),
        GoogleRole(role="roles/artifactregistry.reader", on="project", reason="nodes fetch images"),
    ),
)
ACCOUNTS = (DRIVER, WORKER, HOST, REAPER, NODE)
