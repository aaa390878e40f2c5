"""How is the Container API asked about node pools, and told to change them?

Google's client, in threads. Reading is repeated for a bounded time; what changes anything is sent once, for whoever
asks looks again anyway and sees what became of it. It is never sent once nobody waits for it any more, and is waited
for though whoever asked is cancelled: who gives everything back after that must not overlook it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from requests import RequestException

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.gke_access import OVERRIDE
from prefect_tpu.infra.gcp.google_api import Address, GoogleApi, address_of, answered, credentials_for, is_unreadable
from prefect_tpu.infra.gcp.patience import Patience, persevere
from prefect_tpu.infra.gcp.pool_errors import PoolFailure, Said, Trouble, trouble_of
from prefect_tpu.infra.gcp.pool_facts import ClusterPools, read_operation, read_pool
from prefect_tpu.infra.gcp.pool_rate import GATES, Gates

if TYPE_CHECKING:
    from google.cloud.container_v1 import ClusterManagerClient

T = TypeVar("T")

KUBERNETES_ENGINE = GoogleApi(
    name="Kubernetes Engine",
    service="container.googleapis.com",
    role="roles/container.clusterViewer",
    override=OVERRIDE,
)
_HTTP = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
}
TURN_SECONDS = 60.0  # for a change, before it is sent
_THREAD_SECONDS = 120.0  # for its turn and its answer


class PoolsError(PlatformError):
    """The Container API refused to tell what pools there are, and would again."""

    def __init__(self, message: str, failure: PoolFailure) -> None:
        self.failure = failure
        super().__init__(message)


class NodePools:
    """The node pools of one cluster.

    gates: through which changes of them go, of the whole process by default.
    turn_seconds: for how long a change waits there.
    """

    def __init__(
        self,
        cluster: GkeCluster,
        patience: Patience | None = None,
        gates: Gates = GATES,
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        self.cluster, self._gates, self._turn_seconds = cluster, gates, turn_seconds
        self._patience = patience or Patience(retry=10.0)

    async def look(self) -> ClusterPools:
        """All pools and operations.

        Raises:
            PoolsError: Google does not tell, and asking again does not help.
            Unavailable: it did not answer for as long as it was asked.
        """
        found = await self._read(lambda client, **how: client.list_node_pools(parent=self._parent, **how))
        parent = f"projects/{self.cluster.project}/locations/{self.cluster.location}"
        # In this order: what was begun between the two is seen as an operation, and not as a pool that is absent.
        done = await self._read(lambda client, **how: client.list_operations(parent=parent, **how))
        pools = [read_pool(pool) for pool in found.node_pools]
        known = (read_operation(one, self.cluster.cluster) for one in done.operations)
        return ClusterPools(pools={pool.name: pool for pool in pools}, operations=tuple(filter(None, known)))

    async def create(self, body: dict[str, Any]) -> PoolFailure | None:
        """Begin to make a pool; why that was not begun, as far as one knows."""
        has_topology = "tpuTopology" in body.get("placementPolicy", {})

        def make(client: ClusterManagerClient, **how: Any) -> object:
            from google.cloud.container_v1 import NodePool

            return client.create_node_pool(parent=self._parent, node_pool=NodePool.from_json(json.dumps(body)), **how)

        return await self._change(make, has_topology=has_topology)

    async def resize(self, name: str, nodes: int) -> PoolFailure | None:
        request = {"name": self._name(name), "node_count": nodes}
        return await self._change(lambda client, **how: client.set_node_pool_size(request=request, **how))

    async def delete(self, name: str) -> PoolFailure | None:
        """Begin to delete a pool; None too where it is gone already."""
        failure = await self._change(lambda client, **how: client.delete_node_pool(name=self._name(name), **how))
        return None if failure and failure.trouble is Trouble.GONE else failure

    @property
    def _parent(self) -> str:
        return self.cluster.resource_name

    def _name(self, pool: str) -> str:
        return f"{self._parent}/nodePools/{pool}"

    async def _read(self, ask: Callable[..., T]) -> T:
        async def once() -> T:
            try:
                return await self._call(ask)
            except _Failed as exc:
                raise self._error(exc) from exc

        patience = self._patience
        return await persevere(
            once, patience, seconds=patience.retry, is_worth=lambda exc: isinstance(exc, Unavailable)
        )

    async def _change(self, ask: Callable[..., object], *, has_topology: bool = False) -> PoolFailure | None:
        latest = time.monotonic() + self._turn_seconds

        def with_turn(client: ClusterManagerClient, **how: Any) -> object:
            with self._gates.change(self.cluster):
                if time.monotonic() > latest:
                    raise _Failed(Said(canonical="ABORTED", text="too many other changes come first", is_answer=True))
                return ask(client, **how)

        try:
            with anyio.CancelScope(shield=True):
                await self._call(with_turn)
        except _Failed as exc:
            return PoolFailure(trouble=trouble_of(exc.said, has_topology=has_topology), said=exc.said.text)
        return None

    async def _call(self, ask: Callable[..., T]) -> T:
        """One request. Raises `_Failed` with what Google said."""

        def once() -> T:
            try:
                return ask(_client(), timeout=self._patience.request, retry=None)
            except Exception as exc:  # told apart below; what is none of Google's passes
                raise _failed(exc) from exc

        try:
            return await answered(once, _THREAD_SECONDS)
        except TimeoutError as exc:
            said = f"no answer within {_THREAD_SECONDS:.0f} s"
            raise _Failed(Said(canonical="DEADLINE_EXCEEDED", text=said, is_answer=True)) from exc

    def _error(self, exc: _Failed) -> PlatformError:
        failure = PoolFailure(trouble=trouble_of(exc.said), said=exc.said.text)
        about = f"Could not list the node pools of cluster gke://{'/'.join(self._parent.split('/')[1::2])}"
        if failure.trouble.is_final:
            return PoolsError(f"{about}: {failure.said.rstrip('.')}.", failure)
        return Unavailable(f"{about}: {failure.said.rstrip('.')}. Check the network, or try later.")


class _Failed(Exception):
    """A request that was not answered as hoped."""

    def __init__(self, said: Said) -> None:
        self.said = said
        super().__init__(said.text)


def _failed(exc: Exception) -> Exception:
    """What went wrong on the way, in our words; anything else is a defect and stays what it is."""
    if isinstance(exc, GoogleAPICallError):
        return _Failed(_said(exc))
    if isinstance(exc, DefaultCredentialsError):
        return UsageError(
            f"There are no usable Google credentials: {exc} Run `gcloud auth application-default login`, or set"
            " GOOGLE_APPLICATION_CREDENTIALS to a file of them."
        )
    if isinstance(exc, GoogleAuthError):
        code = "UNAVAILABLE" if exc.retryable else "UNAUTHENTICATED"
        return _Failed(Said(canonical=code, text=f"Google gave no access token: {exc}", is_answer=True))
    if isinstance(exc, RequestException | ConnectionError):
        return _Failed(Said(canonical="UNAVAILABLE", text=f"no answer: {exc}", is_answer=True))
    if is_unreadable(exc):
        said = f"what answered is not {KUBERNETES_ENGINE.name} ({exc})"
        return _Failed(Said(canonical="UNAVAILABLE", text=said, is_answer=True))
    return exc


def _said(exc: GoogleAPICallError) -> Said:
    """The status of the answer's body, which says more than the HTTP code."""
    try:
        error = dict(exc.response.json()["error"])
    except (ValueError, KeyError, TypeError, AttributeError):
        error = {}
    code = int(exc.code or 0)
    status = error.get("status") or _HTTP.get(code, "UNAVAILABLE" if code >= 500 or code == 0 else "INVALID_ARGUMENT")
    reason = f" ({exc.reason})" if exc.reason else ""
    return Said(canonical=str(status), text=f"{error.get('message') or exc.message}{reason}", is_answer=True)


def _client() -> ClusterManagerClient:
    """One per address and process, for its connections and its token."""
    return _client_at(address_of(KUBERNETES_ENGINE))


@lru_cache(maxsize=4)
def _client_at(address: Address) -> ClusterManagerClient:
    from google.cloud.container_v1 import ClusterManagerClient
    from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport

    scheme, credentials = "http" if address.is_plain else "https", credentials_for(address)
    return ClusterManagerClient(
        transport=ClusterManagerRestTransport(host=address.host, url_scheme=scheme, credentials=credentials)
    )
