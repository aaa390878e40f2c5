"""How many devices a program that drives all chips must find, and what it does where Pathways is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.training import pathways

MakePlan = Callable[..., HostPlan]


def alone(make_plan: MakePlan, **changes: object) -> HostPlan:
    return make_plan(1, platform="proxy", workers=6, slices=3, devices_per_host=24, addresses=("head",), **changes)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A `pathwaysutils` that says when it is called, in place of Google's."""
    (tmp_path / "pathwaysutils.py").write_text("calls = 0\n\n\ndef initialize():\n    global calls\n    calls += 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("pathwaysutils", None)


def test_all_devices_of_all_slices_must_be_there(make_plan: MakePlan) -> None:
    plan = alone(make_plan)
    assert pathways.expected(plan, 24) == {"hosts": 1, "devices in all": 24}
    for found in (0, 8, 16, 23, 25, 48):
        assert pathways.expected(plan, found)["devices in all"] == 24


def test_of_an_elastic_job_whole_slices_may_be_away_but_never_all(make_plan: MakePlan) -> None:
    one, every = alone(make_plan, elastic_slices=1), alone(make_plan, elastic_slices=3)
    assert [found for found in range(30) if pathways.expected(one, found)["devices in all"] == found] == [16, 24]
    assert [found for found in range(30) if pathways.expected(every, found)["devices in all"] == found] == [8, 16, 24]


def test_where_the_image_has_what_it_needs_jax_is_told_of_pathways(package: Path) -> None:
    pathways.initialize()
    assert sys.modules["pathwaysutils"].calls == 1 and pathways.is_known()
    assert "containers beside the program's" in pathways.advice()


def test_outside_a_job_too_once(package: Path) -> None:
    code = "import prefect_tpu as tpu; tpu.join(); tpu.join(); import pathwaysutils; print(pathwaysutils.calls)"
    environment = {**os.environ, "JAX_PLATFORMS": "proxy", "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n", "joining again does nothing"


def test_where_it_has_not_it_is_said_what_to_install() -> None:
    pathways.initialize()
    assert not pathways.is_known()
    assert "pip install pathwaysutils" in pathways.advice()
