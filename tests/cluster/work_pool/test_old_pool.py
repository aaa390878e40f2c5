"""A pool keeps the template that it was made with: one of an older package, or somebody's own, still works."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import pytest
from scenes import Played, Scene, Story, named, on_each, played
from slice_pool import slice_pool

from prefect_tpu.flows.work_pool.template import Template

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

# What an early version may have had; everything else is unknown to its pools.
EARLY = {"accelerator", "image", "namespace", "output", "volumes", "cpu", "memory", "env", "command", "name", "labels"}


def as_before(template: Template) -> Template:
    """With few variables, one that is gone, one of somebody's own, and no word of who made it."""
    old = deepcopy(template)
    variables = old["variables"]["properties"]
    properties = {name: field for name, field in variables.items() if name in EARLY}
    properties["topology"] = {"type": "string", "default": "2x4", "title": "Topology"}
    properties["team"] = {"type": "string", "default": "research", "title": "Team"}
    configuration = {name: line for name, line in old["job_configuration"].items() if name in EARLY}
    labels = {"team": "{{ team }}"}
    configuration |= {"topology": "{{ topology }}", "labels": labels}
    return {"job_configuration": configuration, "variables": {"type": "object", "properties": properties}}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOld:
    """What came of a run of such a pool. teams: the labels of its pods. told: by the worker."""

    played: Played
    teams: set[str]
    told: str


def play(scene: Scene) -> OfOld:
    with slice_pool(scene.pool.stage, scene.pool.server, scene.name, as_before) as pool:
        pool.workers.start()
        run = pool.start(pool.deploy("once", accelerator="cpu-1x1", team="vision"))
        run.wait_until_up(1, 1)
        teams = {pod["metadata"]["labels"]["team"] for pod in run.pods()}
        run.let_go_on()
        return OfOld(played=played(run, pool), teams=teams, told=pool.workers.told())


STORY = Story(name="old", play=play)


@pytest.mark.parametrize(("story", "database"), on_each([STORY]), ids=named)
def test_a_run_of_an_old_pool(outcome_of: Callable[[Story, str], OfOld], story: Story, database: str) -> None:
    found = outcome_of(story, database)
    assert found.teams == {"vision"}
    assert found.played.state[0] == "COMPLETED", (found.played.told, found.told)
