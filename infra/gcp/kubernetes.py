"""What can be asked of a cluster? The one client through which everything of ours talks to Kubernetes.

    async with Kubernetes("my-context") as cluster:
        pods = await cluster.list_all(Selection(resource=PODS, namespace="default", labels="app=x"))

Objects are plain dicts, as the API server writes them. Reading is repeated when
the API server cannot answer, writing only where a second write does no harm;
every wait is bounded by `Patience`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.gcp.calls import MERGE_PATCH, Call
from prefect_tpu.infra.gcp.clusters import ClusterName
from prefect_tpu.infra.gcp.errors import Conflict, NotFound
from prefect_tpu.infra.gcp.resources import ACCESS_REVIEWS, Resource, Selection, resource_of
from prefect_tpu.infra.gcp.sharing import shared
from prefect_tpu.infra.loading import load

if TYPE_CHECKING:
    from prefect_tpu.infra.gcp.connection import Connection
    from prefect_tpu.infra.gcp.patience import Patience
    from prefect_tpu.infra.gcp.pod_logs import IsOver, LogQuery
    from prefect_tpu.infra.gcp.watches import Keep, Snapshot

Object = dict[str, Any]


class Kubernetes:
    """A cluster, while it is open as a context.

    Args:
        cluster: a kubeconfig context, `gke://project/location/cluster`, or nothing: the cluster this process is in,
            else the kubeconfig's current context.
        patience: how long is waited for what.

    Raises:
        UsageError: when it is opened, and there is no such cluster to be reached.
    """

    def __init__(self, cluster: str | None = None, patience: Patience | None = None) -> None:
        self.name = ClusterName.parse(cluster)
        self._patience = patience
        self._connection: Connection | None = None
        self._is_borrowed = False  # others use it too, and whoever shares it closes it

    async def __aenter__(self) -> Kubernetes:
        together = shared() if self._patience is None else None
        if together is None:
            self._connection = await self._connect()
        else:
            self._connection, self._is_borrowed = await together.get(("cluster", str(self.name)), self._connect), True
        return self

    async def _connect(self) -> Connection:
        # The Kubernetes library takes half a second to load; whoever only asks what would be sent must not pay for it.
        load("prefect_tpu.infra.gcp.connection")
        from prefect_tpu.infra.gcp.access import find_access
        from prefect_tpu.infra.gcp.connection import Connection
        from prefect_tpu.infra.gcp.patience import Patience

        return Connection(await find_access(self.name), self._patience or Patience())

    async def __aexit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not self._is_borrowed:
            await connection.close()

    @property
    def cluster(self) -> str:
        """How messages call it."""
        return self._open.access.cluster

    @property
    def namespace(self) -> str:
        """Where objects go that name no namespace."""
        return self._open.access.namespace

    @property
    def _open(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("Open the cluster first: `async with Kubernetes(...) as cluster`.")
        return self._connection

    # Reading

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, is_brief: bool = False
    ) -> Object:
        """One object, or its metadata alone where that is enough. Raises `NotFound`."""
        served = await self.served(resource)
        call = Call(verb="get", resource=served, namespace=namespace, name=name, is_brief=is_brief)
        return await self._open.send(call)

    async def find(
        self, resource: Resource, name: str, namespace: str | None = None, *, is_brief: bool = False
    ) -> Object | None:
        """One object, or its metadata alone, or `None` where there is none of that name."""
        try:
            return await self.get(resource, name, namespace, is_brief=is_brief)
        except NotFound as exc:
            if exc.is_type:
                raise
            return None

    async def list_all(self, selection: Selection) -> tuple[Object, ...]:
        """All objects of a selection, read in pages."""
        from prefect_tpu.infra.gcp.lists import list_all

        return (await list_all(self._open, await self._selected(selection))).objects

    async def watch(self, selection: Selection, keep: Keep | None = None) -> AsyncGenerator[Snapshot, None]:
        """What is there, at once and on each change; goes on over broken connections until an error that stays.

        Close it by `contextlib.aclosing`.

        Args:
            selection: which objects.
            keep: what of each is remembered; by default all.

        Raises:
            Unavailable: the API server could not be reached for `patience.unreachable` seconds.
            ClusterError: what repeating cannot mend, such as `Forbidden` or a type that is not served.
        """
        from prefect_tpu.infra.gcp.watches import watch, whole

        snapshots = watch(self._open, await self._selected(selection), keep or whole)
        try:
            async for snapshot in snapshots:
                yield snapshot
        finally:
            await snapshots.aclose()

    async def logs(
        self, namespace: str, pod: str, query: LogQuery, is_over: IsOver | None = None
    ) -> AsyncGenerator[str, None]:
        """The lines that a container wrote; with `follow` until it ends.

        Args:
            namespace: where the pod is.
            pod: its name.
            query: which lines.
            is_over: asked at the end of a stream whether the container has ended; by default the end is believed.
        """
        from prefect_tpu.infra.gcp.pod_logs import believe_end, read_log

        lines = read_log(self._open, namespace, pod, query, is_over or believe_end)
        try:
            async for line in lines:
                yield line
        finally:
            await lines.aclose()

    # Writing

    async def create_or_adopt(self, manifest: Mapping[str, Any], owner: tuple[str, ...] = ()) -> Object:
        """The object as it is in the cluster: made now, or made before by whoever these labels name.

        Safe to repeat, also where nobody knows whether the first try arrived. An object that is being deleted is waited
        for until its name is free.

        Args:
            manifest: the object, with its labels.
            owner: names of the labels that must be equal for the object to be ours.

        Raises:
            Conflict: the name belongs to somebody else, whom the message names, or does not become free.
            Refused: the API server or an admission webhook does not take it, and why.
        """
        from prefect_tpu.infra.gcp.creation import create_or_adopt

        return await create_or_adopt(self._open, await self._creation(manifest), owner)

    async def create(self, manifest: Mapping[str, Any]) -> Object:
        """Make an object; sent again only where it certainly did not arrive."""
        return await self._open.send(await self._creation(manifest))

    async def dry_run(self, manifest: Mapping[str, Any]) -> Object:
        """The object as it would be, after all defaults and admission webhooks; nothing is made."""
        return await self._open.send(await self._creation(manifest, dryRun="All"))

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        change: Mapping[str, Any],
        *,
        content_type: str = MERGE_PATCH,
        is_brief: bool = False,
    ) -> Object:
        """Change an object; by default as a JSON merge patch. What it is then, or its metadata alone."""
        from prefect_tpu.infra.gcp.conflicts import send_despite_changes

        served = await self.served(resource)
        call = Call(
            verb="patch",
            resource=served,
            namespace=namespace,
            name=name,
            body=change,
            content_type=content_type,
            is_brief=is_brief,
        )
        return await send_despite_changes(self._open, call)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Delete exactly one object, never a later one of the same name. Whether there was one to delete.

        Args:
            resource: its type.
            name: its name.
            namespace: where it is.
            uid: which one is meant; by default the one that has the name now.
            grace: seconds its processes have; by default what the object says.
            propagation: what becomes of the objects it owns: `Background`, `Foreground` or `Orphan`.
        """
        from prefect_tpu.infra.gcp.conflicts import send_despite_changes

        served = await self.served(resource)
        try:
            meant = uid or (await self.get(served, name, namespace))["metadata"]["uid"]
            body: Object = {"propagationPolicy": propagation, "preconditions": {"uid": meant}}
            if grace is not None:
                body["gracePeriodSeconds"] = grace
            call = Call(verb="delete", resource=served, namespace=namespace, name=name, body=body)
            await send_despite_changes(self._open, call)
        except NotFound as exc:
            if exc.is_type:
                raise
            return False
        except Conflict:  # the name has passed to another object
            return False
        return True

    # Asking about the cluster

    async def may(self, verb: str, resource: Resource, namespace: str | None = None, part: str | None = None) -> bool:
        """Whether the credentials have a permission."""
        asked = {"verb": verb, "group": resource.group, "resource": resource.plural}
        asked |= {name: value for name, value in {"namespace": namespace, "subresource": part}.items() if value}
        manifest = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind}
        review = await self.create({**manifest, "spec": {"resourceAttributes": asked}})
        return bool(review["status"].get("allowed"))

    async def served(self, resource: Resource) -> Resource:
        """The type in the best version that the cluster serves. Raises `NotFound` where it serves none of several."""
        if len(resource.versions) == 1:
            return resource
        known = self._open.served
        if resource.full_name not in known:
            from prefect_tpu.infra.gcp.discovery import served_version

            known[resource.full_name] = await served_version(self._open, resource)
        return known[resource.full_name]

    async def version(self) -> str:
        """The version of the API server, as in `v1.36.3`."""
        from prefect_tpu.infra.gcp.discovery import server_version

        return await server_version(self._open)

    async def _creation(self, manifest: Mapping[str, Any], **query: str) -> Call:
        from prefect_tpu.infra.gcp.creation import creation

        return creation(resource_of(manifest), manifest, self.namespace, query)

    async def _selected(self, selection: Selection) -> Selection:
        served = await self.served(selection.resource)
        return Selection(
            resource=served, namespace=selection.namespace, labels=selection.labels, fields=selection.fields
        )
