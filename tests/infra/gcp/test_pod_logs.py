"""What a container wrote, each line once, whatever becomes of the connection."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.gcp.errors import NotFound, Refused
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.pod_logs import LogQuery

pytestmark = pytest.mark.anyio
PATH = "/api/v1/namespaces/research/pods/a/log"


async def lines(cluster: Kubernetes, **asked: Any) -> list[str]:
    return [line async for line in cluster.logs("research", "a", LogQuery(**asked))]


def at(second: int, fraction: str, text: str) -> str:
    return f"2026-01-01T00:00:{second:02}{fraction}Z {text}"


async def test_lines_come_without_their_times(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", PATH, server.stream(at(1, ".5", "one"), at(1, ".25", ""), at(2, "", "  two\r")))
    assert await lines(cluster, container="train", tail=3, since_seconds=60, previous=True) == ["one", "", "  two\r"]
    query = {"container": "train", "tailLines": "3", "sinceSeconds": "60", "previous": "true", "timestamps": "true"}
    assert [asked for asked, _ in server.asked("GET")] == [query]


async def test_a_broken_connection_goes_on_after_the_last_line(server: Any, cluster: Kubernetes) -> None:
    first = [at(1, ".1", "one"), at(1, ".2", "same"), at(1, ".2", "same")]
    second = [*first, at(1, ".2", "same"), at(1, ".3", "two"), at(2, ".000000001", "three")]
    server.on("GET", PATH, server.stream(*first, then="break"), server.drop(), server.stream(*second))
    assert await lines(cluster, follow=True, tail=9) == ["one", "same", "same", "same", "two", "three"]
    asked = [query for query, _ in server.asked("GET")]
    again = {"follow": "true", "timestamps": "true", "sinceTime": "2026-01-01T00:00:01Z"}
    assert asked == [{"follow": "true", "timestamps": "true", "tailLines": "9"}, again, again]


async def test_lines_that_are_stamped_out_of_order_are_not_lost(server: Any, cluster: Kubernetes) -> None:
    written = [at(1, ".2", "out"), at(1, ".1", "error"), at(1, ".3", "out again")]
    server.on("GET", PATH, server.stream(*written, then="break"), server.stream(*written, at(1, ".2", "late")))
    assert await lines(cluster, follow=True) == ["out", "error", "out again", "late"]


async def test_silence_is_no_end(server: Any, cluster: Kubernetes) -> None:
    silent = server.stream(at(1, ".1", "one"), then="silence")
    server.on("GET", PATH, silent, silent, server.stream(at(1, ".1", "one"), at(9, ".1", "two")))
    assert await lines(cluster, follow=True) == ["one", "two"]


async def test_lines_without_a_time_are_passed_on(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", PATH, server.stream("failed to read the log", at(1, "", "one")))
    assert await lines(cluster) == ["failed to read the log", "one"]


async def test_a_container_that_has_not_started_is_said(server: Any, cluster: Kubernetes) -> None:
    said = 'container "train" in pod "a" is waiting to start: ContainerCreating'
    server.on("GET", PATH, server.status(400, "BadRequest", said))
    with pytest.raises(Refused, match="Could not get the log of Pod 'a' .* ContainerCreating"):
        await lines(cluster)


async def test_a_pod_that_is_not_there_is_said(server: Any, cluster: Kubernetes) -> None:
    server.on("GET", PATH, server.status(404, "NotFound", 'pods "a" not found', {"kind": "pods", "name": "a"}))
    with pytest.raises(NotFound, match="it is not there"):
        await lines(cluster)
