"""What the leader's flow, the other hosts' agents and regions start with: who is told what of Prefect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.host.environment import flow_environment, program_environment
from prefect_tpu.infra.host.jax_guard import PLATFORM, guarded
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan

MakePlan = Callable[..., HostPlan]
FLOW = Program(kind="flow", target="python", arguments=("-m", "prefect"))
SECRETS = {
    "PREFECT_API_KEY": "pnu",
    "PREFECT_API_AUTH_STRING": "admin:pass",
    "PREFECT__FLOW_RUN_ID": "6e",
    "PREFECT_CLIENT_CUSTOM_HEADERS": "{}",
}
OPEN = {"PREFECT_API_URL": "http://server/api", "PREFECT_HOME": "/home/p", "HF_TOKEN": "the program's own"}
BEHAVIOR = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"


def of(plan: HostPlan, host: int, **inherited: str) -> dict[str, str]:
    return program_environment(plan, host, inherited=inherited, own={})


@pytest.mark.parametrize("backend", ["local", "jobset"])
def test_only_the_leader_has_what_is_for_prefect(make_plan: MakePlan, backend: str) -> None:
    plan = make_plan(2, program=FLOW, backend=backend, env={"PREFECT__FLOW_RUN_NAME": "calm-otter"})
    leader, follower = (of(plan, host, **SECRETS, **OPEN, **{Env.REGION_KEY: "5e"}) for host in (0, 1))
    wanted = {*SECRETS, *OPEN, Env.REGION_KEY, "PREFECT__FLOW_RUN_NAME"}
    assert wanted <= set(leader)
    assert wanted & set(follower) == {*OPEN, Env.REGION_KEY}


def test_a_region_has_neither_that_nor_the_key_on_any_host(make_plan: MakePlan) -> None:
    plan = make_plan(2, program=Program(kind="function", target="f"), region="f-1", backend="jobset", env=SECRETS)
    for host in (0, 1):
        found = of(plan, host, **SECRETS, **OPEN, **{Env.REGION_KEY: "5e", "PREFECT_TPU_OUTPUT": "/jobs"})
        assert set(found) & {*SECRETS, *OPEN, Env.REGION_KEY, "PREFECT_TPU_OUTPUT"} == {*OPEN, "PREFECT_TPU_OUTPUT"}


def test_a_job_that_a_flow_starts_here_is_no_part_of_it(make_plan: MakePlan) -> None:
    inside = {Env.REGION: "/scratch/regions/1", Env.PARENT: "17", Env.REGION_KEY: "5e"}
    assert not set(inside) & set(of(make_plan(2), 0, **inside))


def test_the_flow_is_none_of_the_programs_processes(make_plan: MakePlan) -> None:
    plan = make_plan(2, program=FLOW)
    found = flow_environment(plan, {**of(plan, 0, **SECRETS), Env.PLAN: "/plan.json"})
    assert not {"RANK", "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "TPU_WORKER_ID"} & set(found)
    assert {"PREFECT_API_KEY", Env.PLAN, "PYTHONUNBUFFERED"} <= set(found)


def test_a_notice_leaves_the_run_as_it_is_unless_its_person_wants_otherwise(make_plan: MakePlan) -> None:
    plan = make_plan(2, program=FLOW)
    assert flow_environment(plan, {})[BEHAVIOR] == "relinquish"
    assert flow_environment(plan, {BEHAVIOR: "reschedule"})[BEHAVIOR] == "reschedule"


def test_alone_the_flow_is_the_program_and_may_use_jax(make_plan: MakePlan, tmp_path: Path) -> None:
    plan = make_plan(1, program=FLOW)
    found = flow_environment(plan, {**of(plan, 0), Env.SCRATCH: str(tmp_path)})
    assert (found["JAX_NUM_PROCESSES"], found["RANK"], found["JAX_PLATFORMS"]) == ("1", "0", "cpu")
    assert guarded(plan, found) == found


def test_what_is_installed_is_not_hidden_by_what_came_for_hosts(make_plan: MakePlan) -> None:
    path = {"PYTHONPATH": os.pathsep.join(["/host.pyz", "/code"])}
    plan = make_plan(2, program=FLOW)
    assert flow_environment(plan, path, without="/host.pyz")["PYTHONPATH"] == "/code"
    assert flow_environment(plan, path)["PYTHONPATH"] == "/host.pyz:/code"
    assert "PYTHONPATH" not in flow_environment(plan, {"PYTHONPATH": "/host.pyz"}, without="/host.pyz")


def test_jax_in_one_of_several_hosts_is_told_what_to_do_and_may_have_the_cpus(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    environment = guarded(make_plan(4), {**os.environ, Env.SCRATCH: str(tmp_path)})
    assert environment["JAX_PLATFORMS"] == PLATFORM
    code = (
        "import jax, jax.numpy as jnp\n"
        "try:\n    jnp.zeros(3)\n"
        "except RuntimeError as exc:\n    print(exc)\n"
        "jax.config.update('jax_platforms', 'cpu')\n"
        "print(jax.devices()[0].platform)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    said, platform = done.stdout.splitlines()
    assert "this flow runs on the leader of a slice of 4 hosts, and JAX needs all of them. Call" in said
    assert platform == "cpu"
