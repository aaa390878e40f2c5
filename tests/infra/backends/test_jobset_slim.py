"""What is remembered of an object is all that is read of it, and little: by what a real cluster once said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from prefect_tpu.infra.backends import jobset_reading as reading
from prefect_tpu.infra.backends import jobset_slim as slim
from tests.infra.backends.recorded import FIXTURES, read

Object = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "gcp" / "golden"
MANIFESTS = ("v6e", "two-slices", "spot", "after-a-lost-pool", "everything", "kueue", "cpu-hosts", "reserved")


def recorded(kind: str) -> list[Object]:
    """All objects of a kind, of all recordings."""
    found: list[Object] = []
    for path in sorted(FIXTURES.glob("*.json")):
        recording, _ = read(path)
        if recording is not None:
            found += [*recording.objects.get(kind, []), *(recording.gone if kind == "pod" else [])]
    return found


def whole(found: Object) -> Object:
    """Recordings leave out what every object has."""
    return {**found, "metadata": {"uid": "u", "resourceVersion": "1", **found["metadata"]}}


READ: list[tuple[str, Callable[[Object], Object], Callable[[Object], object]]] = [
    ("jobset", slim.jobset, reading.read_jobset),
    ("job", slim.job, reading.read_job),
    ("pod", slim.pod, lambda found: reading.read_pod(found, 2)),
    ("event", slim.event, reading.read_event),
    ("node", slim.node, reading.read_node),
    ("workload", slim.workload, lambda found: reading.read_workload(found, recorded("workload"))),
]


@pytest.mark.parametrize(("kind", "keep", "look"), READ, ids=[f"{one[0]}-{place}" for place, one in enumerate(READ)])
def test_what_is_kept_reads_as_the_whole_object(
    kind: str, keep: Callable[[Object], Object], look: Callable[[Object], object]
) -> None:
    objects = [whole(found) for found in recorded(kind)]
    assert objects, f"no recording has a {kind}"
    for found in objects:
        assert look(keep(found)) == look(found)
        assert keep(keep(found)) == keep(found)


def test_what_nobody_reads_is_left_out() -> None:
    loud = {"managedFields": [{"manager": "kubelet"}], "name": "a", "uid": "u", "resourceVersion": "7"}
    container = {"name": "host", "image": "x", "env": [{"name": "A", "value": "b" * 1000}]}
    pod = {"metadata": loud, "spec": {"containers": [container], "nodeName": "n"}, "status": {"phase": "Running"}}
    kept = slim.pod(pod)
    assert kept["metadata"] == {"name": "a", "uid": "u", "resourceVersion": "7"}
    assert "containers" not in kept["spec"] and len(json.dumps(kept)) < 300


@pytest.mark.parametrize("name", MANIFESTS)
def test_nodes_for_its_pods_are_the_same_by_what_is_kept_of_both(name: str) -> None:
    jobset = whole(yaml.safe_load((GOLDEN / f"{name}.yaml").read_text()))
    labels = {"cloud.google.com/gke-nodepool": "pool-a", **jobset_labels(jobset)}
    for node in map(whole, recorded("node")):
        node = {**node, "metadata": {**node["metadata"], "labels": {**node["metadata"].get("labels", {}), **labels}}}
        kept = slim.jobset(jobset)
        assert reading.node_labels(kept) == reading.node_labels(jobset)
        assert reading.read_nodes([slim.node(node)], kept) == reading.read_nodes([node], jobset)
        assert slim.jobset(kept) == kept


def jobset_labels(jobset: Object) -> dict[str, str]:
    """What a node has that the jobset's pods ask for."""
    return dict(part.split("=", 1) for part in reading.node_labels(jobset).split(",") if part)
