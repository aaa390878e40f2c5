"""What hosts run is owned by every JobSet that needs it, in as few requests as possible."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from prefect_tpu.infra.backends.jobset_archive import ensure, own
from prefect_tpu.infra.gcp.errors import Forbidden
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.sharing import Shared

pytestmark = pytest.mark.anyio
PATH = "/api/v1/namespaces/research/configmaps/archive"


def jobset(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"digits-{number}", "namespace": "research", "uid": f"u{number}"}}


class Asked:
    """An API server's answer that takes a while; `owners` has the uids that each request adds."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.owners: list[list[str]] = []
        self.has_begun = asyncio.Event()
        self._seconds = seconds

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        change = json.loads(await request.text())
        self.owners.append([one["uid"] for one in change["metadata"]["ownerReferences"]])
        self.has_begun.set()
        await asyncio.sleep(self._seconds)
        return web.json_response({"metadata": {"name": "archive"}})


async def together(cluster: Kubernetes, *numbers: int) -> list[bool | BaseException]:
    with Shared().used():
        asked = (own(cluster, "archive", jobset(number)) for number in numbers)
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_those_that_come_meanwhile_share_a_request(server: Any, cluster: Kubernetes) -> None:
    asked = Asked(seconds=0.2)  # the others are all there before it answers
    server.on("PATCH", PATH, asked)
    assert await together(cluster, *range(20)) == [True] * 20
    assert sorted(sum(asked.owners, [])) == sorted(f"u{number}" for number in range(20))
    assert len(asked.owners) <= 2


async def test_those_that_begin_at_once_make_it_once_and_again_where_it_is_gone(
    server: Any, cluster: Kubernetes
) -> None:
    archive = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "archive", "namespace": "research"}}
    missing = {"name": "archive", "kind": "configmaps"}
    gone = server.status(404, "NotFound", 'configmaps "archive" not found', missing)
    server.on("GET", PATH, gone)
    server.on("POST", "/api/v1/namespaces/research/configmaps", server.json(archive, 201))
    server.on("PATCH", PATH, gone)
    with Shared().used():
        await asyncio.gather(*(ensure(cluster, archive) for _ in range(20)))
        assert len(server.asked("POST", "/configmaps")) == len(server.asked("GET", PATH)) == 1
        assert await own(cluster, "archive", jobset(1)) is False
        await ensure(cluster, archive)
        assert len(server.asked("POST", "/configmaps")) == 2


async def test_each_alone_asks_for_itself(server: Any, cluster: Kubernetes) -> None:
    server.on("PATCH", PATH, asked := Asked())
    assert [await own(cluster, "archive", jobset(number)) for number in (1, 2)] == [True, True]
    assert asked.owners == [["u1"], ["u2"]]


async def test_all_hear_that_it_is_gone_or_going(server: Any, cluster: Kubernetes) -> None:
    going = {"metadata": {"name": "archive", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    gone = server.status(404, "NotFound", 'configmaps "archive" not found', {"name": "archive", "kind": "configmaps"})
    for answer in (server.json(going), gone):
        server.on("PATCH", PATH, answer)
        assert await together(cluster, 1, 2, 3) == [False] * 3


async def test_all_hear_what_keeps_it_from_being_owned(server: Any, cluster: Kubernetes) -> None:
    said = 'configmaps "archive" is forbidden: User "ann" cannot patch resource "configmaps"'
    server.on("PATCH", PATH, server.status(403, "Forbidden", said, {"kind": "configmaps"}))
    assert [type(error) for error in await together(cluster, 1, 2)] == [Forbidden] * 2


async def test_who_goes_meanwhile_leaves_the_others_theirs(server: Any, cluster: Kubernetes) -> None:
    hangs, asked = Asked(seconds=3600), Asked()
    server.on("PATCH", PATH, hangs, asked)
    with Shared().used():
        first = asyncio.create_task(own(cluster, "archive", jobset(1)))
        await hangs.has_begun.wait()
        second = asyncio.create_task(own(cluster, "archive", jobset(2)))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is True
    assert [set(one) for one in asked.owners] == [{"u1", "u2"}]
