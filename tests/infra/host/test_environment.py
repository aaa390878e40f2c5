"""The environment a host's program starts with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.plan import HostPlan

MakePlan = Callable[..., HostPlan]


def of(plan: HostPlan, host: int = 2, **inherited: str) -> dict[str, str]:
    return program_environment(plan, host, inherited=inherited, own={Env.SCRATCH: "/scratch"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JAX_COORDINATOR_ADDRESS", "127.0.0.1:20123"), ("JAX_NUM_PROCESSES", "4"), ("JAX_PROCESS_ID", "2"),
        ("JAX_PLATFORMS", "cpu"), ("JAX_NUM_CPU_DEVICES", "4"),
        ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "20123"), ("WORLD_SIZE", "4"), ("RANK", "2"),
        ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"), ("GROUP_RANK", "2"),
        ("TPU_WORKER_ID", "2"), ("TPU_WORKER_HOSTNAMES", "127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1"),
        ("TPU_SKIP_MDS_QUERY", "1"), ("PYTHONUNBUFFERED", "1"),
        (Env.HOST, "2"), (Env.SCRATCH, "/scratch"),
    ],
)  # fmt: skip
def test_every_framework_finds_its_words(make_plan: MakePlan, name: str, value: str) -> None:
    assert of(make_plan(), RANK="9", JAX_PLATFORMS="tpu", JAX_PROCESS_ID="9")[name] == value


def test_an_ipv6_coordinator_is_taken_apart_at_its_port(make_plan: MakePlan) -> None:
    found = of(make_plan(coordinator="[::1]:8476"))
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("[::1]", "8476")


def test_gpus_are_named_one_by_one(make_plan: MakePlan) -> None:
    found = of(make_plan(platform="cuda", gpus=("0", "1", "2")))
    assert (found["CUDA_VISIBLE_DEVICES"], found["JAX_PLATFORMS"]) == ("0,1,2", "cuda,cpu")
    assert "JAX_NUM_CPU_DEVICES" not in found


def test_gpus_are_counted_as_nvidia_smi_does_but_where_somebody_chose_them(make_plan: MakePlan) -> None:
    plan = make_plan(platform="cuda", gpus=("1",))
    assert of(plan)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_DEVICE_ORDER" not in of(plan, CUDA_VISIBLE_DEVICES="1,3")


def test_hosts_on_cpus_see_no_gpu(make_plan: MakePlan) -> None:
    assert of(make_plan(), CUDA_VISIBLE_DEVICES="0,1")["CUDA_VISIBLE_DEVICES"] == ""


def test_on_a_tpu_the_platforms_own_settings_stay(make_plan: MakePlan) -> None:
    found = of(make_plan(platform="tpu"), JAX_PLATFORMS="tpu", TPU_TOPOLOGY="4x4")
    assert (found["JAX_PLATFORMS"], found["TPU_TOPOLOGY"]) == ("tpu", "4x4")


@pytest.mark.parametrize(("devices", "threads"), [(1, "32"), (4, "32"), (8, "64")])
def test_hosts_on_cpus_have_threads_for_programs_in_flight(make_plan: MakePlan, devices: int, threads: str) -> None:
    assert of(make_plan(devices_per_host=devices))["NPROC"] == threads


@pytest.mark.parametrize(
    "name",
    ["PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT__FLOW_RUN_ID", "PREFECT_SERVER_DATABASE_CONNECTION_URL"],
)
def test_the_orchestrators_own_is_withheld_unless_given_on_purpose(make_plan: MakePlan, name: str) -> None:
    assert name not in of(make_plan(), **{name: "secret"})
    assert of(make_plan(env={name: "given"}), **{name: "secret"})[name] == "given"


def test_the_rest_is_inherited_and_our_own_words_win(make_plan: MakePlan) -> None:
    found = of(
        make_plan(env={"A": "job", Env.HOST: "7", Env.SCRATCH: "/x"}), A="inherited", PREFECT_API_URL="u", PATH="p"
    )
    assert (found["A"], found["PREFECT_API_URL"], found["PATH"]) == ("job", "u", "p")
    assert (found[Env.HOST], found[Env.SCRATCH]) == ("2", "/scratch")
