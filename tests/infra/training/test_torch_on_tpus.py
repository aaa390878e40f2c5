"""What a PyTorch program on TPUs begins with, by torch_xla's own names, and what it is told where that is not there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra.errors import UsageError, WrongSlice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.training import torch_on_tpus
from prefect_tpu.infra.training.context import context

RUNTIME = """\
said = []
processes = 1
local_process_count = lambda: processes
is_spmd = lambda: bool(said)
use_spmd = lambda: said.append("spmd")
addressable_runtime_device_count = lambda: 4
global_runtime_device_count = lambda: 4
"""
PLANNERS = "class SPMDSavePlanner: ...\nclass SPMDLoadPlanner: ...\n"


@pytest.fixture
def torch_xla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The few names of it that are used, in place of the package: it needs PyTorch 2.9, and a TPU to do anything."""
    (tmp_path / "torch_xla/experimental").mkdir(parents=True)
    (tmp_path / "torch_xla/__init__.py").touch()
    (tmp_path / "torch_xla/runtime.py").write_text(RUNTIME)
    (tmp_path / "torch_xla/experimental/distributed_checkpoint.py").write_text(PLANNERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch_xla"]:
        monkeypatch.delitem(sys.modules, name)


def test_where_it_is_not_there_it_is_said_what_to_install(
    inside_job: Callable[..., HostPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside_job(platform="tpu")
    assert torch_on_tpus.is_wanted(context()) and torch_on_tpus.planners() == {}
    with pytest.raises(UsageError, match=r"pip install 'prefect-tpu\[torch-xla\]'"):
        torch_on_tpus.begin()


@pytest.mark.usefixtures("torch_xla")
def test_one_process_has_all_chips_of_its_host_and_several_meet_over_xla() -> None:
    assert torch_on_tpus.planners() == {}
    assert torch_on_tpus.begin() == torch_on_tpus.begin() == {"backend": "gloo"}
    runtime = sys.modules["torch_xla.runtime"]
    assert runtime.said == ["spmd"]
    assert [kind.__name__ for kind in torch_on_tpus.planners().values()] == ["SPMDSavePlanner", "SPMDLoadPlanner"]
    runtime.processes = 4
    assert torch_on_tpus.begin() == {"backend": "xla", "init_method": "xla://"}


@pytest.mark.usefixtures("torch_xla")
def test_other_chips_than_planned_are_named(inside_job: Callable[..., HostPlan]) -> None:
    inside_job(platform="tpu", devices_per_host=4)
    here = context()
    assert here is not None
    torch_on_tpus.check(here)
    inside_job(hosts=2, platform="tpu", devices_per_host=4)
    here = context()
    assert here is not None
    with pytest.raises(WrongSlice, match="devices in all: 4 instead of 8"):
        torch_on_tpus.check(here)
