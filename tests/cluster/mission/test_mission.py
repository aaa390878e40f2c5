"""`train` with a saved cluster, whole: staged, allowed, made, run, taken back, resumed on another shape, home, gone."""

from __future__ import annotations

import json

import pytest
from cluster import CLONE, Cluster
from google.cloud.container_v1 import NodePool
from grounds import FIRST_CHIPS, MadePools, OnPathways, Queued
from story import Mission, Story, Telling
from world import RESOURCE, ZONES, World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

GOAL = 0.95
WORDS = ("--steps", "80", "--step-seconds", "0.1")
UNHEARD = Telling(begins=lambda *_: None, line=lambda _: None, proved=lambda _: None)


@pytest.fixture(scope="module")
def story(here: World) -> Story:
    return Mission(here, MadePools(), UNHEARD, "digits", *WORDS).play()


@pytest.fixture(scope="module")
def queued(kueue: Cluster, here: World, story: Story) -> Story:
    """The same through a queue, after the other: they are one cluster's."""
    here.google.wet()
    return Mission(here, Queued(), UNHEARD, "queued", *WORDS).play()


@pytest.fixture(scope="module")
def pathways(here: World) -> Story:
    """The same with one program that drives all chips, as far as it goes without Google's own programs."""
    words = ("--pods", json.dumps(OnPathways.WISHES), "--steps", "120", "--step-seconds", "0.4")
    return Mission(here, OnPathways(), UNHEARD, "alone", *words).play()  # longer than machines that are lost have left


def said(story: Story, task: str) -> str:
    return "\n".join(line.text for line in story.lines if line.task == task)


def test_code_and_data_are_staged_first(story: Story) -> None:
    assert next(line.task for line in story.lines if line.task not in ("", "train")) == "stage_data"
    assert "digits" in said(story, "stage_data")


def test_quota_is_asked_for_before_anything_is_made(story: Story, here: World) -> None:
    told = said(story, "check_quota")
    assert f"{FIRST_CHIPS} in {ZONES[0]} fits" in told and "needs 16 chips, has 32 of 64 (32 used)" in told, told


def test_the_pool_is_what_the_slice_needs(story: Story) -> None:
    pool = story.pools[1]
    assert (pool.config.machine_type, pool.config.spot, list(pool.locations)) == (
        "ct6e-standard-4t", True, [ZONES[0]],
    )  # fmt: skip
    assert pool.placement_policy.type_ == NodePool.PlacementPolicy.Type.COMPACT
    assert pool.placement_policy.tpu_topology == "4x4"


@pytest.mark.parametrize(("attempt", "hosts"), [(1, 4), (2, 2)])
def test_every_host_is_a_pod_on_a_node_of_its_own(story: Story, attempt: int, hosts: int) -> None:
    assert len({pod["spec"]["nodeName"] for pod in story.pods[attempt]}) == hosts
    assert {node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for node in story.nodes[attempt]} == {
        story.pools[attempt].name
    }


def test_the_second_attempt_goes_on_where_the_first_had_saved(story: Story) -> None:
    first, second = story.result["attempts"]
    assert (first["outcome"], second["outcome"]) == ("preempted", "succeeded")
    assert second["first_step"] == first["saved_step"] + 1 > 1
    assert (first["zone"], first["accelerator"]) == (ZONES[0], FIRST_CHIPS)
    assert second["accelerator"] != first["accelerator"], "the first kind is dry everywhere"


def test_the_result_is_home(story: Story) -> None:
    assert story.result["state"] == "succeeded"
    assert story.result["value"]["accuracy"] > GOAL
    assert set(story.tasks.values()) == {"Completed"}
    assert {"provision_slice-1", "launch_training-2", "release_slice-2", "collect_results"} <= set(story.tasks)


def test_nothing_is_left(story: Story, here: World) -> None:
    assert story.left == []
    made = [asked.name for asked in here.google.asked if asked.called == "nodePools.create"]
    assert set(made) == {RESOURCE}


def test_the_page_tells_this_mission() -> None:
    page = (CLONE / "docs" / "how-to" / "mission.md").read_text()
    assert all(title in page for title in MadePools().titles.values())
    assert "nothing: no JobSet, pod, ConfigMap, node pool, node or process" in page


@pytest.mark.long
def test_a_queue_lets_the_job_in_each_time(queued: Story) -> None:
    first, second = queued.result["attempts"]
    assert (first["outcome"], second["outcome"]) == ("preempted", "succeeded")
    assert second["first_step"] == first["saved_step"] + 1 > 1
    assert [len(queued.pods[attempt]) for attempt in (1, 2)] == [4, 4]
    assert queued.result["value"]["accuracy"] > GOAL
    assert queued.left == []


@pytest.mark.long
def test_one_program_drives_all_chips(pathways: Story) -> None:
    """A head and a worker per machine; the workers are lost with their machines, and the head is begun again."""
    first, second = pathways.result["attempts"]
    assert first["outcome"] in ("preempted", "host_lost") and second["outcome"] == "succeeded"
    assert second["first_step"] == first["saved_step"] + 1 > 1
    assert [len(pathways.pods[attempt]) for attempt in (1, 2)] == [5, 5]
    assert pathways.result["value"]["accuracy"] > GOAL
    assert pathways.left == []
