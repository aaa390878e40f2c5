"""A line is given once, whether it came from a pod or from the job's folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import LogLine
from prefect_tpu.infra.backends.jobset_logs import Given, Wanted, read, read_log, rest
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.storage import LocalStorage

LINES = st.lists(st.sampled_from(["a", "b", "loss 0.5", ""]), max_size=30)


def gave(*lines: str) -> Given:
    given = Given()
    for line in lines:
        given.note(line)
    return given


@given(lines=LINES, cut=st.integers(0, 30))
def test_what_was_given_and_the_rest_are_the_whole_log(lines: list[str], cut: int) -> None:
    first = lines[:cut]
    assert [*first, *rest(lines, gave(*first), None)] == lines


@given(lines=LINES, tail=st.integers(0, 40))
def test_a_tail_is_the_last_lines(lines: list[str], tail: int) -> None:
    assert rest(lines, Given(), tail) == (lines[-tail:] if tail else [])


@pytest.mark.parametrize(
    ("given_lines", "expected"),
    [
        (("b",), ["c", "d"]),
        (("b", "c"), ["d"]),
        (("c", "d"), []),
        (("x",), []),  # nobody knows where that was: better too few lines than one twice
    ],
)
def test_after_a_tail_the_place_is_found_by_the_last_lines(given_lines: tuple[str, ...], expected: list[str]) -> None:
    assert rest(["a", "b", "c", "d"], gave(*given_lines), 2) == expected


def test_a_log_is_read_over_all_its_parts(tmp_path) -> None:
    storage = LocalStorage(tmp_path)
    assert read_log(storage, 1, 0) == []
    storage.put(layout.log_part(1, 0, 0), b"one\ntw")
    storage.put(layout.log_part(1, 0, 1), "o\n\nfünf".encode())
    assert read_log(storage, 1, 0) == ["one", "two", "", "fünf"]


# -- Over the API server ---------------------------------------------------------------------------

PODS = "/api/v1/namespaces/research/pods"
RUNNING, ENDED = {"running": {}}, {"terminated": {"exitCode": 0, "reason": "Completed"}}
WRITTEN = [f"2026-01-01T00:00:0{second}.5Z {text}" for second, text in enumerate(("a", "b", "c", "d"))]


def pod(state: dict[str, Any], host: int = 0) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-completion-index": str(host)}
    metadata = {"name": f"j-1-s-0-{host}-x", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"containerStatuses": [{"state": state}]}}


def reading(cluster: Kubernetes, folder: Path, hosts: int, wanted: Wanted) -> AsyncGenerator[LogLine, None]:
    target = Target(
        cluster=None,
        namespace="research",
        name="j-1",
        selector="x=y",
        output=str(folder),
        attempt=1,
        slices=1,
        hosts=hosts,
    )
    return read(cluster, target, range(hosts), wanted)


@pytest.mark.anyio
@pytest.mark.parametrize(("tail", "expected"), [(None, ["a", "b", "c", "d"]), (1, ["b", "c", "d"])])
async def test_a_stream_that_ends_before_its_container_is_gone_on_with(
    server: Any, cluster: Kubernetes, tmp_path: Path, tail: int | None, expected: list[str]
) -> None:
    """An API server that restarts ends a stream as one ends whose container has ended, which is told a moment later."""
    server.on("GET", PODS, *[server.items(pod(RUNNING))] * 2, server.items(pod(ENDED)))
    first = WRITTEN[:2] if tail is None else WRITTEN[1:2]
    whole, since = server.stream(*WRITTEN), server.stream(*WRITTEN[1:])  # by the time of the last line that came

    async def again(request: Any) -> Any:
        return await (since if "sinceTime" in request.query else whole)(request)

    server.on("GET", f"{PODS}/j-1-s-0-0-x/log", server.stream(*first), again)
    wanted = Wanted(follow=True, tail=tail)
    assert [line.text async for line in reading(cluster, tmp_path, 1, wanted)] == expected
    assert {query["labelSelector"] for query, _ in server.asked("GET", "/pods")} == {
        "x=y,jobset.sigs.k8s.io/job-index=0,batch.kubernetes.io/job-completion-index=0"
    }


@pytest.mark.anyio
async def test_the_hosts_of_a_large_slice_are_looked_for_together(
    server: Any, cluster: Kubernetes, tmp_path: Path
) -> None:
    hosts, wanted = 50, Wanted(follow=True, tail=None)
    server.on("GET", PODS, server.items(*(pod(ENDED, host) for host in range(hosts))))
    for host in range(hosts):
        server.on("GET", f"{PODS}/j-1-s-0-{host}-x/log", server.stream(f"2026-01-01T00:00:00Z from {host}"))
    written = [(line.host, line.text) async for line in reading(cluster, tmp_path, hosts, wanted)]
    assert sorted(written) == [(host, f"from {host}") for host in range(hosts)]
    assert len(server.asked("GET", "/pods")) < hosts


@pytest.mark.anyio
async def test_a_pod_that_is_gone_is_read_on_in_the_folder(server: Any, cluster: Kubernetes, tmp_path: Path) -> None:
    LocalStorage(tmp_path).put(layout.log_part(1, 0, 0), b"a\nb\nc\nd\n")
    LocalStorage(tmp_path).put(layout.started(1, 0), b"")
    jobset = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/research/jobsets/j-1"
    server.on("GET", PODS, server.items(pod(RUNNING)), server.items())
    server.on("GET", f"{PODS}/j-1-s-0-0-x/log", server.stream(WRITTEN[1]))
    server.on("GET", jobset, server.status(404, "NotFound", "gone", {"kind": "jobsets", "name": "j-1"}))
    wanted = Wanted(follow=True, tail=3)
    assert [line.text async for line in reading(cluster, tmp_path, 1, wanted)] == ["b", "c", "d"]
