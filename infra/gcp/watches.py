"""What is there of a selection, each time it changes?

A list, then a watch from its version on. Connections end all the time: the API
server closes a watch after `patience.watch` seconds, networks fall silent, and
versions are forgotten. None of this is seen from outside, except as time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import Expired, Unavailable, answer_of, error_of
from prefect_tpu.infra.gcp.lists import list_all
from prefect_tpu.infra.gcp.patience import persevere
from prefect_tpu.infra.gcp.resources import Selection

Object = dict[str, Any]


Keep = Callable[[Object], Object]


def whole(found: Object) -> Object:
    """Everything of an object is kept."""
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All objects of a selection at one moment, and what is new since the snapshot before.

    kept: by their uids.
    changed: those of them that came or are not what they were.
    gone: what was there in the snapshot before and is no more, as it was last seen: with the exit codes and conditions
        that nobody can read any more. Where a watch had to begin anew, the last of their states may be missing.
    """

    kept: Mapping[str, Object] = field(default_factory=dict)
    changed: tuple[Object, ...] = ()
    gone: tuple[Object, ...] = ()

    @property
    def objects(self) -> tuple[Object, ...]:
        """All that are there, by name."""
        return tuple(sorted(self.kept.values(), key=_name))


async def watch(connection: Connection, selection: Selection, keep: Keep = whole) -> AsyncGenerator[Snapshot, None]:
    """Snapshots: the first at once, then on each change, and every `patience.watch` seconds as a sign of life.

    keep: what of an object is remembered, and told; its metadata's name, namespace, uid and version must be.

    Raises:
        Unavailable: the API server could not be reached for `patience.unreachable` seconds.
        ClusterError: what repeating cannot mend: no permission, no such type.
    """
    patience = connection.patience
    watcher = _Watcher(connection, selection, keep)
    try:
        while True:
            yield await persevere(
                watcher.advance,
                patience,
                seconds=patience.unreachable,
                is_worth=lambda error: isinstance(error, Unavailable | Expired),
            )
    finally:
        await watcher.close()


class _Watcher:
    """Where a watch stands: what it knows, up to which version, and the stream it reads from."""

    def __init__(self, connection: Connection, selection: Selection, keep: Keep) -> None:
        self._connection, self._selection, self._keep = connection, selection, keep
        self._objects: dict[str, Object] = {}
        self._version: str | None = None
        self._lines: AsyncGenerator[bytes, None] | None = None
        self._has_heard = False

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            await lines.aclose()

    async def advance(self) -> Snapshot:
        """The next snapshot. After an error it may be asked again and goes on from where it was."""
        try:
            if self._version is None:
                return await self._list()
            return await self._next_change()
        except Expired:
            self._version = None
            await self.close()
            raise
        except BaseException:
            await self.close()
            raise

    async def _list(self) -> Snapshot:
        listing = await list_all(self._connection, self._selection)
        before, self._objects = self._objects, {_uid(found): self._keep(found) for found in listing.objects}
        self._version = listing.version
        known = {_version(found) for found in before.values()}
        return self._snapshot(
            changed=tuple(found for found in self._objects.values() if _version(found) not in known),
            gone=tuple(found for uid, found in before.items() if uid not in self._objects),
        )

    async def _next_change(self) -> Snapshot:
        if self._lines is None:
            self._lines, self._has_heard = self._connection.lines(self._call()), False
        opened = asyncio.get_running_loop().time()
        async for line in self._lines:
            self._has_heard = True
            if (snapshot := self._apply(self._event(line))) is not None:
                return snapshot
        await self.close()
        if not self._has_heard and asyncio.get_running_loop().time() - opened < self._connection.patience.watch / 2:
            raise Unavailable(f"The watch of {self._call().object} was closed as soon as it was opened.")
        return self._snapshot()

    def _call(self) -> Call:
        return Call(
            verb="watch",
            resource=self._selection.resource,
            namespace=self._selection.namespace,
            query={
                **self._selection.query,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self._version or "",
                "timeoutSeconds": str(max(1, round(self._connection.patience.watch))),
            },
        )

    def _event(self, line: bytes) -> dict[str, Any]:
        """One line. Whatever stands between us and the API server may end a stream in the middle of one."""
        try:
            return dict(json.loads(line))
        except ValueError as exc:
            raise Unavailable(f"The watch of {self._call().object} broke off within an event.") from exc

    def _apply(self, event: dict[str, Any]) -> Snapshot | None:
        """The new snapshot, or `None` for a bookmark, which only says how far the watch has come."""
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            raise error_of(self._call(), answer_of(found, 500), self._connection.access.cluster)
        self._version = found["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return None
        found = self._keep(found)
        if kind == "DELETED":
            self._objects.pop(_uid(found), None)
            return self._snapshot(gone=(found,))
        self._objects[_uid(found)] = found
        return self._snapshot(changed=(found,))

    def _snapshot(self, *, changed: tuple[Object, ...] = (), gone: tuple[Object, ...] = ()) -> Snapshot:
        return Snapshot(kept=dict(self._objects), changed=changed, gone=gone)


def _uid(found: Object) -> str:
    return str(found["metadata"]["uid"])


def _version(found: Object) -> tuple[str, str]:
    return _uid(found), str(found["metadata"]["resourceVersion"])


def _name(found: Object) -> tuple[str, str]:
    metadata = found["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
