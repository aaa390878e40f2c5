"""Which attempt is an object about? Told by its labels, and of an event by the name of what it is about."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_nodes import NodeGroup
from prefect_tpu.infra.backends.jobset_plan import target_of
from prefect_tpu.infra.backends.jobset_sources import attempts_of, owners_of, plan_of
from prefect_tpu.infra.gcp.ownership import attempt_labels


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("digits-1", "digits-1"),
        ("digits-1-host-0", "digits-1"),
        ("digits-12-host-0-3-x7k2p", "digits-12"),
        ("a-1-2-host-0-0-abcde", "a-1-2"),
        ("t-0123456789ab-3-host-0-0-z", "t-0123456789ab-3"),
    ],
)
def test_an_event_is_about_the_attempt_that_its_object_is_named_after(name: str, attempt: str) -> None:
    assert attempt in attempts_of({"involvedObject": {"name": name}})


@pytest.mark.parametrize("name", ["", "digits", "digits-host", "7"])
def test_an_event_of_something_else_is_about_none(name: str) -> None:
    assert attempts_of({"involvedObject": {"name": name}}) == ()


def test_objects_of_an_attempt_are_found_by_its_selector(make_plan: Any) -> None:
    plan = make_plan()
    labels = {"zebra": "1", **dict(reversed(attempt_labels(plan).items()))}
    assert plan_of({"metadata": {"labels": labels}}) == (target_of(plan).selector,)
    assert plan_of({"metadata": {"labels": {"app.kubernetes.io/managed-by": "prefect-tpu"}}}) == ()
    assert plan_of({"metadata": {}}) == ()


def test_a_workload_is_found_among_all_and_by_its_owner() -> None:
    assert owners_of({"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "u"}}}) == ("", "u")
    assert owners_of({"metadata": {}}) == ("",)


class Told:
    def __init__(self) -> None:
        self.words: list[str] = []

    def nodes_known(self) -> None:
        self.words.append("known")

    def node_changed(self, name: str) -> None:
        self.words.append(f"+{name}")

    def node_went(self, last: Any) -> None:
        self.words.append(f"-{last.name}")

    def nodes_broke(self, error: Exception) -> None:
        self.words.append("broke")


def jobset(**selector: str) -> dict[str, Any]:
    pod = {"nodeSelector": selector}
    return {"spec": {"replicatedJobs": [{"name": "host", "template": {"spec": {"template": {"spec": pod}}}}]}}


def node(name: str, ready: str = "True", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def test_a_node_is_told_of_when_it_means_something_else_than_before() -> None:
    group, told = NodeGroup(jobset(kind="tpu"), ""), Told()
    group.join(told)
    for found in (node("a", kind="tpu"), node("a", kind="tpu"), node("b", kind="cpu"), node("c", kind="tpu")):
        group.came(found)
    group.known()
    assert told.words == ["+a", "+c", "known"] and set(group.facts) == {"a", "c"}
    group.came(node("a", ready="Unknown", kind="tpu"))
    group.came(node("c", kind="cpu"))  # its labels have changed: it is none of these any more
    group.went(node("b", kind="cpu"))
    group.went(node("a", kind="tpu"))
    assert told.words[3:] == ["+a", "-c", "-a"] and not group.facts
