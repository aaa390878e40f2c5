"""Who hears of which objects, where many share one watch? Each reader hears of its own, at once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import Selection
from prefect_tpu.infra.gcp.watches import Keep, whole

Object = dict[str, Any]


class Reader(Protocol):
    """Who hears. Called in the event loop, so it must be quick."""

    def known(self) -> None:
        """All that there is now was told."""
        ...

    def came(self, found: Object) -> None:
        """It came, or is not what it was."""
        ...

    def went(self, found: Object) -> None:
        """It is no more, and was like this last."""
        ...

    def broke(self, error: Exception) -> None:
        """Nothing is told any more."""
        ...


_NOTHING = "\0"  # no object is asked by it


class _Knowing:
    """Waits until all was told."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done

    def known(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def came(self, found: Object) -> None:
        """Nothing is told under the key that it has."""

    def went(self, found: Object) -> None:
        """As `came`."""

    def broke(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


def of_one(found: Object) -> Iterable[str]:
    """All objects are told to all readers, who read the key of none."""
    return ("",)


class Collection:
    """What there is of a selection, kept up to date by one watch.

    Args:
        cluster: stays open as long as this is watched.
        selection: which objects.
        keys: what an object may be asked by.
        keep: what of an object is remembered.
    """

    def __init__(
        self,
        cluster: Kubernetes,
        selection: Selection,
        keys: Callable[[Object], Iterable[str]] = of_one,
        keep: Keep = whole,
    ) -> None:
        self._cluster, self._selection, self._keys, self._keep = cluster, selection, keys, keep
        self._by_key: dict[str, dict[str, Object]] = {}
        self._readers: dict[str, list[Reader]] = {}
        self.is_known = False  # all that there is was listed once
        self._error: Exception | None = None
        self._task = asyncio.create_task(self._watch())

    @property
    def is_over(self) -> bool:
        """Whether nothing is told any more."""
        return self._error is not None

    def end(self) -> asyncio.Task[None]:
        """Watch no more. The task that is over soon."""
        self._task.cancel()
        return self._task

    def join(self, reader: Reader, key: str = "") -> None:
        """Tell a reader what there is of a key, and from now on what becomes of it."""
        self._readers.setdefault(key, []).append(reader)
        for found in self.of(key).values():
            _tell(reader, reader.came, found)
        if self._error is not None:
            reader.broke(self._error)
        elif self.is_known:
            reader.known()

    def leave(self, reader: Reader, key: str = "") -> None:
        """Tell it nothing more."""
        readers = self._readers.get(key, [])
        if reader in readers:
            readers.remove(reader)
        if not readers:
            self._readers.pop(key, None)

    def of(self, key: str = "") -> Mapping[str, Object]:
        """What there is now of a key, by uid."""
        return self._by_key.get(key, {})

    def everything(self) -> tuple[Object, ...]:
        """All that there is now, whatever it may be asked by."""
        return tuple({uid: found for objects in self._by_key.values() for uid, found in objects.items()}.values())

    async def known(self) -> None:
        """Until all that there is was listed once. Raises what ended the watch."""
        heard = _Knowing(asyncio.get_running_loop().create_future())
        self.join(heard, _NOTHING)
        try:
            await heard.done
        finally:
            self.leave(heard, _NOTHING)

    async def _watch(self) -> None:
        try:
            async with aclosing(self._cluster.watch(self._selection, self._keep)) as snapshots:
                async for snapshot in snapshots:
                    for found in snapshot.gone:
                        self._went(found)
                    for found in snapshot.changed:
                        self._came(found)
                    self._know()
        except Exception as exc:  # raised where somebody reads, not here where nobody does
            self._error = exc
            for reader in self._all_readers():
                reader.broke(exc)

    def _know(self) -> None:
        if not self.is_known:
            self.is_known = True
            for reader in self._all_readers():
                reader.known()

    def _came(self, found: Object) -> None:
        uid = found["metadata"]["uid"]
        for key in self._keys(found):
            self._by_key.setdefault(key, {})[uid] = found
            for reader in self._readers.get(key, ()):
                _tell(reader, reader.came, found)

    def _went(self, found: Object) -> None:
        for key in self._keys(found):
            objects = self._by_key.get(key, {})
            objects.pop(found["metadata"]["uid"], None)
            if not objects:
                self._by_key.pop(key, None)
            for reader in self._readers.get(key, ()):
                _tell(reader, reader.went, found)

    def _all_readers(self) -> list[Reader]:
        return [reader for readers in self._readers.values() for reader in readers]


def _tell(reader: Reader, deed: Callable[[Object], None], found: Object) -> None:
    """What one of many cannot read is no end of the watch for the others."""
    try:
        deed(found)
    except Exception as exc:
        reader.broke(exc)
