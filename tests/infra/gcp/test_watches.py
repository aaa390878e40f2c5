"""What is there, each time it changes: over ends, breaks, silence and versions that are forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.gcp.errors import Forbidden, NotFound, Unavailable
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.patience import Patience
from prefect_tpu.infra.gcp.resources import JOBSETS, PODS, Selection
from prefect_tpu.infra.gcp.watches import Snapshot

pytestmark = pytest.mark.anyio
PATH = "/api/v1/namespaces/research/pods"
SELECTION = Selection(resource=PODS, namespace="research", labels="app=x")
Make = Callable[..., dict[str, Any]]


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": found}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


GONE = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


async def first_where(cluster: Kubernetes, is_it: Callable[[Snapshot], bool]) -> tuple[Snapshot, list[Snapshot]]:
    """The first snapshot that fits, and those before it."""
    before: list[Snapshot] = []
    async with aclosing(cluster.watch(SELECTION)) as snapshots:
        async for snapshot in snapshots:
            if is_it(snapshot):
                return snapshot, before
            before.append(snapshot)
    raise AssertionError("the watch ended")


def has(name: str) -> Callable[[Snapshot], bool]:
    return lambda snapshot: name in names(snapshot.objects)


def names(objects: tuple[dict[str, Any], ...]) -> list[str]:
    return [found["metadata"]["name"] for found in objects]


def watched_from(server: Any) -> list[str]:
    return [query["resourceVersion"] for query, _ in server.asked("GET", "/pods") if "watch" in query]


async def test_a_list_and_then_each_change(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    ended = {**make_pod("a", "8"), "status": {"phase": "Failed"}}
    changes = [event("ADDED", make_pod("b", "7")), event("DELETED", ended), event("ADDED", make_pod("c", "9"))]
    server.on("GET", PATH, server.items(make_pod("a"), version="5"), server.stream(*changes, then="silence"))
    snapshot, before = await first_where(cluster, has("c"))
    assert names(snapshot.objects) == ["b", "c"]
    told = [*before, snapshot]
    assert [found for each in told for found in each.gone] == [ended]
    assert names(before[0].objects) == ["a"]
    assert watched_from(server) == ["5"]
    assert server.asked("GET", "/pods")[0][0] == {"labelSelector": "app=x", "limit": "500"}


async def test_an_ended_watch_goes_on_from_its_last_bookmark(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on(
        "GET",
        PATH,
        server.items(version="5"),
        server.stream(event("ADDED", make_pod("a", "6")), bookmark("90")),
        server.stream(event("ADDED", make_pod("b", "91")), then="silence"),
    )
    snapshot, _ = await first_where(cluster, has("b"))
    assert names(snapshot.objects) == ["a", "b"]
    assert watched_from(server) == ["5", "90"]


async def test_a_broken_connection_is_made_anew_without_a_list(
    server: Any, cluster: Kubernetes, make_pod: Make
) -> None:
    server.on(
        "GET",
        PATH,
        server.items(version="5"),
        server.stream(event("ADDED", make_pod("a", "6")), then="break"),
        server.drop(),
        server.stream(event("ADDED", make_pod("b", "7")), then="silence"),
    )
    snapshot, _ = await first_where(cluster, has("b"))
    assert names(snapshot.objects) == ["a", "b"]
    assert watched_from(server) == ["5", "6", "6"]


async def test_half_an_event_is_none(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    whole = event("ADDED", make_pod("b", "7"))
    server.on(
        "GET",
        PATH,
        server.items(version="5"),
        server.stream(event("ADDED", make_pod("a", "6")), json.dumps(whole)[:40]),
        server.stream(whole, then="silence"),
    )
    snapshot, _ = await first_where(cluster, has("b"))
    assert names(snapshot.objects) == ["a", "b"]
    assert watched_from(server) == ["5", "6"]


async def test_a_silent_connection_is_given_up(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on(
        "GET",
        PATH,
        server.items(version="5"),
        server.stream(then="silence"),
        server.stream(event("ADDED", make_pod("a", "6")), then="silence"),
    )
    await first_where(cluster, has("a"))
    assert watched_from(server) == ["5", "5"]


@pytest.mark.parametrize("is_event", [True, False])
async def test_a_forgotten_version_is_listed_anew_and_tells_what_is_gone(
    server: Any, cluster: Kubernetes, make_pod: Make, is_event: bool
) -> None:
    forgotten = server.stream(GONE) if is_event else server.json(GONE["object"], 410)
    server.on(
        "GET",
        PATH,
        server.items(make_pod("a"), make_pod("b"), version="5"),
        forgotten,
        server.items(make_pod("b"), make_pod("c"), version="50"),
        server.stream(then="silence"),
    )
    snapshot, _ = await first_where(cluster, has("c"))
    assert (names(snapshot.objects), names(snapshot.gone)) == (["b", "c"], ["a"])


async def test_a_failing_api_server_is_waited_for(server: Any, cluster: Kubernetes, make_pod: Make) -> None:
    server.on(
        "GET",
        PATH,
        server.status(500, "InternalError", "etcdserver: leader changed"),
        server.items(version="5"),
        server.status(503, "ServiceUnavailable", "apiserver is shutting down"),
        server.stream(event("ADDED", make_pod("a", "6")), then="silence"),
    )
    await first_where(cluster, has("a"))
    assert watched_from(server) == ["5", "5"]


async def test_no_permission_ends_it(server: Any, cluster: Kubernetes) -> None:
    said = 'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "research"'
    server.on("GET", PATH, server.status(403, "Forbidden", said, {"kind": "pods"}))
    with pytest.raises(Forbidden, match="kubectl auth can-i list pods --namespace research"):
        await first_where(cluster, has("a"))


async def test_a_type_that_is_not_served_ends_it(cluster: Kubernetes) -> None:
    with pytest.raises(NotFound, match="does not know JobSet") as caught:
        await anext(cluster.watch(Selection(resource=JOBSETS, namespace="research")))
    assert caught.value.is_type


async def test_an_api_server_that_stays_away_is_waited_for_no_longer_than_said(
    server: Any, kubeconfig: Callable[..., Path]
) -> None:
    kubeconfig(server.url)
    server.on("GET", PATH, server.drop())
    brief = Patience(retry=0.2, unreachable=0.2, first_pause=0.01, longest_pause=0.05)
    async with Kubernetes(patience=brief) as cluster:
        with pytest.raises(Unavailable, match="did not answer") as caught:
            await first_where(cluster, has("a"))
    assert any(note.startswith("Tried ") for note in caught.value.__notes__)


async def test_what_changed_is_told_once_and_only_what_is_kept_of_it(
    server: Any, cluster: Kubernetes, make_pod: Make
) -> None:
    anew = [make_pod("a", "5"), make_pod("b", "40"), make_pod("c", "50")]
    server.on(
        "GET",
        PATH,
        server.items(make_pod("a", "5"), make_pod("b", "5"), version="5"),
        server.stream(event("MODIFIED", make_pod("a", "6")), GONE),
        server.items(*anew, version="50"),
        server.stream(then="silence"),
    )
    told: list[list[str]] = []
    async with aclosing(cluster.watch(SELECTION, lambda found: {"metadata": found["metadata"]})) as snapshots:
        async for snapshot in snapshots:
            assert all(set(found) == {"metadata"} for found in snapshot.objects)
            told.append(names(snapshot.changed))
            if "c" in told[-1]:
                break
    assert told == [["a", "b"], ["a"], ["a", "b", "c"]], "a was at version 6 before, and is at 5 now"
