"""A plan reads as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan, RestorePoint

MakePlan = Callable[..., HostPlan]


def full(make_plan: MakePlan) -> HostPlan:
    return make_plan(
        program=Program(kind="command", target="python", arguments=("a.py", "1"), payload="c" * 64),
        data={"digits": "d" * 64},
        env={"A": "b"},
        restore=RestorePoint(attempt=2, step=40),
        deadline=60.0,
        drills=("kill@step=3",),
    )


def test_a_plan_survives_json(make_plan: MakePlan) -> None:
    for plan in (make_plan(), full(make_plan)):
        assert HostPlan.from_json(plan.to_json()) == plan
        assert HostPlan.from_json(plan.to_json()).to_json() == plan.to_json()


def test_what_is_of_flows_alone_stands_in_no_other_plan(make_plan: MakePlan) -> None:
    assert not {"regions", "region"} & set(json.loads(make_plan().to_json()))
    flow = make_plan(regions="10.0.0.1:8490", region="fit-1")
    assert HostPlan.from_json(flow.to_json()) == flow


def test_a_mesh_stands_only_in_plans_that_say_one(make_plan: MakePlan) -> None:
    """Objects in a cluster are known by the hash of their plan."""
    assert "mesh" not in json.loads(make_plan().to_json())
    said = make_plan(mesh='{"data": -1}')
    assert HostPlan.from_json(said.to_json()) == said


def test_one_more_field_of_a_later_release_is_no_obstacle(make_plan: MakePlan) -> None:
    raw = json.dumps({**json.loads(full(make_plan).to_json()), "colour": "blue"})
    assert HostPlan.from_json(raw) == full(make_plan)


@pytest.mark.parametrize(
    "changes",
    [
        {"program": None},
        {"program": {"kind": "module"}},
        {"program": {"kind": "notebook", "target": "a", "arguments": []}},
        {"program": {"kind": "module", "target": "m:f", "arguments": [], "colour": "blue"}},
        {"restore": {"attempt": 1}},
        {"restore": {"attempt": 1, "step": 2, "colour": "blue"}},
        {"restore": 7},
    ],
)
def test_a_plan_with_other_fields_than_ours_inside_is_refused(make_plan: MakePlan, changes: dict[str, Any]) -> None:
    raw = json.dumps({**json.loads(full(make_plan).to_json()), **changes})
    with pytest.raises(ContractError, match="lacks or mistypes a field .*delete it and run the job again"):
        HostPlan.from_json(raw)


@pytest.mark.parametrize("name", ["program", "restore", "hosts", "python"])
def test_a_plan_without_one_of_its_fields_is_refused(make_plan: MakePlan, name: str) -> None:
    data = json.loads(full(make_plan).to_json())
    del data[name]
    with pytest.raises(ContractError, match=f"plan.json lacks or mistypes a field .*{name}"):
        HostPlan.from_json(json.dumps(data))


def test_a_newer_or_damaged_plan_is_refused(make_plan: MakePlan) -> None:
    newer = json.dumps({**json.loads(make_plan().to_json()), "version": 99})
    with pytest.raises(ContractError, match=r"plan\.json was written by a newer prefect-tpu"):
        HostPlan.from_json(newer)
    with pytest.raises(ContractError, match=r"plan\.json is damaged"):
        HostPlan.from_json(make_plan().to_json()[:50])


def test_a_host_with_a_disk_of_its_own_talks_to_its_program_there(make_plan: MakePlan) -> None:
    assert make_plan().scratch_folder(2) == Path("/out/digits/attempts/3/hosts/2/scratch")
    own = make_plan(scratch="/scratch", orphan_after=None)
    assert own.scratch_folder(2) == Path("/scratch/digits-3/2")
    assert HostPlan.from_json(own.to_json()) == own


def test_slices_have_equally_many_hosts(make_plan: MakePlan) -> None:
    assert make_plan(hosts=8, slices=2).hosts_per_slice == 4
