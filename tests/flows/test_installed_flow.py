"""Deployments of our flows name modules, which whoever runs them imports: no file of this machine, and no image."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prefect import Flow
from prefect.deployments.runner import EntrypointType, RunnerDeployment
from prefect.flows import load_flow_from_entrypoint

from prefect_tpu.flows.retrain import retrain
from prefect_tpu.flows.sweep import sweep
from prefect_tpu.flows.train import train

FLOWS = [train, retrain, sweep]


def name(flow: Flow[Any, Any]) -> str:
    return flow.name


@pytest.mark.parametrize("flow", FLOWS, ids=name)
def test_a_deployment_names_the_flow_s_module(flow: Flow[Any, Any]) -> None:
    made: Any = flow.to_deployment("here", parameters={"program": "train.py:main"})
    assert isinstance(made, RunnerDeployment)
    assert made.entrypoint == f"prefect_tpu.flows.{flow.name}.{flow.name}"
    assert made.entrypoint_type is EntrypointType.MODULE_PATH  # without which Prefect wants an image or a storage
    assert (made.name, made.parameters) == ("here", {"program": "train.py:main"})
    assert load_flow_from_entrypoint(made.entrypoint) is flow


def test_one_that_is_made_in_an_event_loop_does_too() -> None:
    async def make() -> list[Any]:
        return [await train.to_deployment("here"), await train.ato_deployment("here")]

    assert {made.entrypoint for made in asyncio.run(make())} == {"prefect_tpu.flows.train.train"}


def test_what_a_person_says_of_the_entry_point_changes_nothing() -> None:
    made = train.to_deployment("here", entrypoint_type=EntrypointType.FILE_PATH)
    assert made.entrypoint == "prefect_tpu.flows.train.train"


def test_from_a_folder_its_programs_count_from_there(tmp_path: Path) -> None:
    here: Any = Flow.from_source(source=str(tmp_path), entrypoint="prefect_tpu.flows.sweep.sweep")
    try:
        made = here.to_deployment("here")
        assert made.entrypoint == "prefect_tpu.flows.sweep.sweep"
        step = {"prefect.deployments.steps.set_working_directory": {"directory": str(tmp_path)}}
        assert made.storage.to_pull_step() == step
    finally:
        here._storage = None  # Prefect keeps it with the flow itself, which is the same one for all tests
