"""What the kubelet decides without a cluster: nodes of a slice, expansion, quantities, which lines of a log."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kubelet import cpu_nodes, logs, slice_nodes
from kubelet.container import Container, Terminated
from kubelet.environment import expand
from kubelet.images import Image, Images, PullFailed
from kubelet.restarts import back_off_seconds, is_restarted
from kubelet.sources import quantity

from prefect_tpu.infra.accelerators import every_name, resolve

TPUS = sorted({found.name for found in map(resolve, every_name()) if found.machine_type and found.platform == "tpu"})


@pytest.mark.parametrize("name", [name for name in TPUS if resolve(name).hosts <= 64])
def test_the_nodes_of_a_slice_have_its_chips(name: str) -> None:
    nodes, found = slice_nodes(name, "pool"), resolve(name)
    assert len(nodes) == len({node["metadata"]["name"] for node in nodes}) == found.hosts
    assert sum(int(node["status"]["allocatable"]["google.com/tpu"]) for node in nodes) == found.chips
    assert {node["metadata"]["labels"]["cloud.google.com/gke-tpu-topology"] for node in nodes} == {found.topology}


def test_the_labels_of_a_node_are_those_of_gke() -> None:
    node = slice_nodes("v6e-16", "a")[1]
    assert node["metadata"]["name"] == "gke-tpu-a-1"
    labels = {name: value for name, value in node["metadata"]["labels"].items() if name.startswith("cloud.google.com/")}
    assert labels == {
        "cloud.google.com/gke-nodepool": "a",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "cloud.google.com/gke-accelerator-count": "4",
        "cloud.google.com/machine-family": "ct6e",
        "cloud.google.com/gke-provisioning": "standard",
    }
    assert node["spec"]["taints"] == [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("capacity", "label", "taint"),
    [
        ("spot", ("gke-spot", "true"), "cloud.google.com/gke-spot"),
        ("flex-start", ("gke-flex-start", "true"), None),
        ("queue", ("gke-queued", "true"), "cloud.google.com/gke-queued"),
        ("reserved=mine", ("reservation-name", "mine"), None),
    ],
)
def test_a_node_tells_how_it_was_paid_for(capacity: str, label: tuple[str, str], taint: str | None) -> None:
    node = slice_nodes(f"v6e-16:{capacity}", "a")[0]
    assert node["metadata"]["labels"][f"cloud.google.com/{label[0]}"] == label[1]
    taints = [one["key"] for one in node["spec"]["taints"]]
    assert taints == ["google.com/tpu", *([taint] if taint else [])]


def test_cpu_nodes_have_no_taints_and_no_chips() -> None:
    first, second = cpu_nodes("cpus", 2)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["spec"]["taints"] == []
    assert "google.com/tpu" not in first["status"]["allocatable"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "a"),
        ("$(A)$(A) $(B)", "aa $(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("echo $$", "echo $"),
        ("$A ${A}", "$A ${A}"),
    ],
)
def test_a_text_is_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "a"}) == expanded


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("100m", 0.1), ("1.5Gi", 1.5 * 2**30), ("512Mi", 2**29), ("1k", 1000), ("2T", 2e12)]
)
def test_a_quantity(text: str, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize(
    ("name", "policy", "reason"),
    [
        ("missing.example/x", "IfNotPresent", "ErrImagePull"),
        ("here:other", "Always", "ErrImagePull"),
        ("here:other", "Never", "ErrImageNeverPull"),
        ("Here", "Always", "InvalidImageName"),
    ],
)
def test_an_image_that_is_not_to_be_had(name: str, policy: str, reason: str) -> None:
    with pytest.raises(PullFailed) as error:
        Images({"here": Image()}).pull(name, policy)
    assert error.value.reason == reason


@pytest.mark.parametrize("name", ["here", "here:latest", "here@sha256:0123"])
def test_an_image_is_found_by_its_tag_and_digest(name: str) -> None:
    image = Image()
    assert Images({"here": image}).pull(name, "Always") is image


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_a_container_that_has_ended_is_started_again(policy: str, code: int, restarts: bool, tmp_path: Path) -> None:
    ended = Terminated(exit_code=code, reason="", started=None, finished="")
    assert is_restarted(Container(spec={"name": "one"}, folder=tmp_path, state=ended), policy) is restarts
    assert is_restarted(Container(spec={"name": "one"}, folder=tmp_path), policy) is False


def test_each_start_waits_twice_as_long_up_to_a_limit(tmp_path: Path) -> None:
    waits = [back_off_seconds(Container(spec={}, folder=tmp_path, restarts=number)) for number in range(7)]
    assert waits == [1, 2, 4, 8, 16, 30, 30]


WRITTEN = "".join(f"2026-11-28T00:00:0{second}.000000Z line {second}\n" for second in range(5))


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({}, "01234"),
        ({"tailLines": "2"}, "34"),
        ({"tailLines": "0"}, ""),
        ({"tailLines": "9"}, "01234"),
        ({"sinceTime": "2026-11-28T00:00:03Z"}, "34"),
        ({"sinceTime": "2026-11-28T00:00:01Z", "tailLines": "1"}, "4"),
    ],
)
def test_the_lines_that_a_request_selects(query: dict[str, str], lines: str, tmp_path: Path) -> None:
    assert _read(tmp_path, query) == "".join(f"line {number}\n" for number in lines)


def test_a_log_with_its_times_and_a_limit_of_bytes(tmp_path: Path) -> None:
    assert _read(tmp_path, {"timestamps": "true"}) == WRITTEN
    assert _read(tmp_path, {"limitBytes": "10"}) == "line 0\nlin"


def _read(folder: Path, query: dict[str, Any]) -> str:
    path = folder / "log"
    path.write_text(WRITTEN)
    over = threading.Event()
    over.set()
    return b"".join(logs.read(path, logs.Selection.of(query), over)).decode()
