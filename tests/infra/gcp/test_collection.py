"""One watch and many readers: each hears of its own objects, in order, and what there was before it came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from prefect_tpu.infra.gcp.collection import Collection
from prefect_tpu.infra.gcp.errors import Forbidden
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import PODS, Selection

pytestmark = pytest.mark.anyio
PATH = "/api/v1/namespaces/research/pods"
SELECTION = Selection(resource=PODS, namespace="research")
Make = Callable[..., dict[str, Any]]


def first_letter(found: dict[str, Any]) -> Iterable[str]:
    return (found["metadata"]["name"][0],)


class Heard:
    """A reader that writes down what it is told."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.changed = asyncio.Event()

    def known(self) -> None:
        self._hear("known")

    def came(self, found: dict[str, Any]) -> None:
        self._hear(f"+{found['metadata']['name']}")

    def went(self, found: dict[str, Any]) -> None:
        self._hear(f"-{found['metadata']['name']}")

    def broke(self, error: Exception) -> None:
        self._hear(type(error).__name__)

    def _hear(self, word: str) -> None:
        self.words.append(word)
        self.changed.set()

    async def until(self, word: str) -> list[str]:
        async with asyncio.timeout(20):
            while word not in self.words:
                self.changed.clear()
                await self.changed.wait()
        return self.words


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": found}


async def test_each_hears_of_its_own(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    changes = [
        event("ADDED", make_pod("b2", "7")),
        event("DELETED", make_pod("a1", "8")),
        event("MODIFIED", make_pod("a2", "9")),
        event("ADDED", make_pod("b3", "10")),
    ]
    first = server.items(make_pod("a1"), make_pod("a2"), make_pod("b1"), version="5")
    server.on("GET", PATH, first, server.stream(*changes, then="silence"))
    collection, of_a, of_b, of_c = Collection(cluster, SELECTION, first_letter), Heard(), Heard(), Heard()
    for reader, key in ((of_a, "a"), (of_b, "b"), (of_c, "c")):
        collection.join(reader, key)
    assert await of_b.until("+b3") == ["+b1", "known", "+b2", "+b3"]
    assert of_a.words == ["+a1", "+a2", "known", "-a1", "+a2"]
    assert of_c.words == ["known"]
    late = Heard()
    collection.join(late, "b")
    assert late.words == ["+b1", "+b2", "+b3", "known"]
    assert [found["metadata"]["name"] for found in collection.of("a").values()] == ["a2"] and not collection.of("c")
    assert len([query for query, _ in server.asked("GET", "/pods") if "watch" in query]) == 1
    await asyncio.gather(collection.end(), return_exceptions=True)


async def test_who_has_left_hears_nothing(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    changes = [event("ADDED", make_pod("a1", "6")), event("ADDED", make_pod("b1", "7"))]
    server.on("GET", PATH, server.items(version="5"), server.stream(*changes, then="silence"))
    collection, stays, leaves = Collection(cluster, SELECTION, first_letter), Heard(), Heard()
    collection.join(leaves, "a")
    collection.join(stays, "b")
    collection.leave(leaves, "a")
    await stays.until("+b1")
    assert leaves.words == [] and len(collection.of("a")) == 1
    await asyncio.gather(collection.end(), return_exceptions=True)


class Perplexed(Heard):
    """A reader that cannot read what it is told."""

    def came(self, found: dict[str, Any]) -> None:
        raise KeyError(found["metadata"]["name"])


async def test_what_one_cannot_read_is_told_to_the_others(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    changes = [event("ADDED", make_pod("a2", "6")), event("ADDED", make_pod("b1", "7"))]
    server.on("GET", PATH, server.items(make_pod("a1"), version="5"), server.stream(*changes, then="silence"))
    collection, perplexed, other = Collection(cluster, SELECTION, first_letter), Perplexed(), Heard()
    collection.join(perplexed, "a")
    collection.join(other, "b")
    assert await other.until("+b1") == ["known", "+b1"]
    assert perplexed.words == ["KeyError", "known", "KeyError"] and not collection.is_over
    await asyncio.gather(collection.end(), return_exceptions=True)


async def test_an_error_that_stays_is_told_to_all_also_to_those_that_come_later(
    server: Any, cluster: Kubernetes
) -> None:
    said = 'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "research"'
    server.on("GET", PATH, server.status(403, "Forbidden", said, {"kind": "pods"}))
    collection, reader, late = Collection(cluster, SELECTION), Heard(), Heard()
    collection.join(reader)
    assert await reader.until(Forbidden.__name__) == ["Forbidden"] and collection.is_over
    collection.join(late)
    assert late.words == ["Forbidden"]
    await asyncio.gather(collection.end(), return_exceptions=True)
