"""A pool keeps the template that it was made with: one of an older package, or somebody's own, still works."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from prefect_server import Server
from scenes import played
from slice_pool import SlicePool

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


def test_a_run_of_an_old_pool(postgres: Server, new_pool: Callable[..., SlicePool]) -> None:
    pool = new_pool(postgres, "old", as_before)
    pool.workers.start()
    run = pool.start(pool.deploy("once", accelerator="cpu-1x1", team="vision"))
    run.wait_until_up(1, 1)
    assert {pod["metadata"]["labels"]["team"] for pod in run.pods()} == {"vision"}
    run.let_go_on()
    found = played(run, pool)
    assert found.state[0] == "COMPLETED", (found.told, pool.workers.told())
