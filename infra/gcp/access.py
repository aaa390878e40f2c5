"""How is a cluster reached: at which address, trusting whom, with whose credentials?"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration

from prefect_tpu.infra.gcp.clusters import ClusterName

_POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


async def _no_renewal() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A way to a cluster.

    configuration: the address and the credentials, renewed by its own hook before they expire.
    cluster: the name for messages.
    namespace: where objects go that name none.
    renew: called once when the API server does not accept the credentials; whether there are new ones.
    """

    configuration: Configuration
    cluster: str
    namespace: str = "default"
    renew: Callable[[], Awaitable[bool]] = _no_renewal


async def find_access(name: ClusterName) -> Access:
    """The way to the cluster that is meant.

    Raises:
        UsageError: there is no such context, or no cluster was named and there is none to take.
        PlatformError: Google does not know the cluster, or gives no credentials.
    """
    if name.gke is not None:
        from prefect_tpu.infra.gcp.gke_access import reach_gke  # google-auth and httpx load only for this

        return await reach_gke(name.gke, str(name))
    if name.context is None and is_inside_a_pod():
        return _from_inside()
    from prefect_tpu.infra.gcp.kubeconfig import reach_context

    return await reach_context(name.context)


def is_inside_a_pod() -> bool:
    """Whether this process has what Kubernetes gives each pod."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_POD_FOLDER / "token").is_file()


def _from_inside() -> Access:
    from kubernetes.aio.config import load_incluster_config

    configuration = Configuration()
    load_incluster_config(configuration)  # reads the token's file again every minute
    namespace = (_POD_FOLDER / "namespace").read_text().strip() or "default"
    return Access(configuration=configuration, cluster="of this pod", namespace=namespace)
