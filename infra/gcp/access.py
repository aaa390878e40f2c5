"""How is a cluster reached: at which address, trusting whom, with whose credentials?"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.clusters import ClusterName

POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
        return reach_from_inside()
    from prefect_tpu.infra.gcp.kubeconfig import reach_context

    return await reach_context(name.context)


def is_inside_a_pod(folder: Path = POD_FOLDER) -> bool:
    """Whether this process has what Kubernetes gives each pod."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (folder / "token").is_file()


def reach_from_inside(folder: Path = POD_FOLDER) -> Access:
    """The way to the cluster of this pod, as its service account. The token's file is read again every minute."""
    from kubernetes.aio.config import ConfigException
    from kubernetes.aio.config.incluster_config import InClusterConfigLoader

    configuration = Configuration()
    try:
        InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt")).load_and_set(configuration)
        namespace = (folder / "namespace").read_text().strip()
    except (ConfigException, OSError) as exc:
        raise UsageError(
            f"This pod cannot reach its cluster: {exc} Give it a service account (automountServiceAccountToken)."
        ) from exc
    return Access(configuration=configuration, cluster="of this pod", namespace=namespace or "default")
