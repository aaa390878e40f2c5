"""What many use together is made once, anew where it is over, and closed with everything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.patience import Patience
from prefect_tpu.infra.gcp.resources import PODS, Selection
from prefect_tpu.infra.gcp.sharing import Shared, shared

pytestmark = pytest.mark.anyio


@dataclass
class Thing:
    name: str
    closed: list[str] = field(default_factory=list)
    is_over: bool = False

    async def close(self) -> None:
        self.closed.append(self.name)


async def test_who_comes_first_makes_it_and_all_wait_for_that() -> None:
    together, made, got = Shared(), [], []

    async def make() -> Thing:
        await anyio.sleep(0.01)
        made.append("once")
        return Thing("a")

    async def ask() -> None:
        got.append(await together.get("key", make))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert made == ["once"] and len({id(thing) for thing in got}) == 1


async def test_what_is_over_is_closed_and_made_anew_and_the_newest_ends_first() -> None:
    together, closed = Shared(), list[str]()
    names = iter("abc")

    async def make() -> Thing:
        return Thing(next(names), closed)

    first = await together.get("one", make)
    await together.get("two", make)
    first.is_over = True
    assert (await together.get("one", make)).name == "c" and closed == ["a"]
    await together.close()
    assert closed == ["a", "c", "b"] or closed == ["a", "b", "c"]


async def test_what_cannot_be_made_is_tried_by_the_next_one() -> None:
    together = Shared()

    async def fail() -> Thing:
        raise OSError("away")

    async def make() -> Thing:
        return Thing("a")

    with pytest.raises(OSError, match="away"):
        await together.get("key", fail)
    assert (await together.get("key", make)).name == "a"


async def test_it_is_shared_inside_and_in_tasks_that_begin_there() -> None:
    together = Shared()
    seen: list[Shared | None] = []

    async def look() -> None:
        seen.append(shared())

    async with anyio.create_task_group() as tasks:
        with together.used():
            tasks.start_soon(look)
        assert shared() is None
    assert seen == [together]


async def test_clusters_of_one_process_have_one_connection_that_stays_open(
    server: Any, kubeconfig: Any, make_pod: Any
) -> None:
    kubeconfig(server.url)
    server.on("GET", "/api/v1/namespaces/research/pods", server.items(make_pod("a")))
    together = Shared()
    with together.used():
        async with Kubernetes() as first, Kubernetes() as second, Kubernetes(patience=Patience()) as own:
            assert first._open is second._open is not own._open
        async with Kubernetes() as third:
            assert third._open is not None
            assert len(await third.list_all(Selection(resource=PODS, namespace="research"))) == 1
    async with Kubernetes() as alone:
        assert alone._open is not None
    await together.close()
