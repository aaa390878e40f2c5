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


def test_on_a_tpu_a_missing_chip_is_an_error_and_what_is_said_of_the_machine_stays(make_plan: MakePlan) -> None:
    found = of(make_plan(platform="tpu"), JAX_PLATFORMS="cpu", TPU_TOPOLOGY="4x4")
    assert (found["JAX_PLATFORMS"], found["TPU_TOPOLOGY"]) == ("tpu,cpu", "4x4")


def on_two_slices(make_plan: MakePlan, host: int, **inherited: str) -> dict[str, str]:
    return of(make_plan(slices=2, platform="tpu", addresses=("a", "b", "c", "d")), host, **inherited)


@pytest.mark.parametrize(
    ("host", "number", "within", "peers"), [(0, "0", "0", "a,b"), (1, "0", "1", "a,b"), (3, "1", "1", "c,d")]
)
def test_hosts_are_counted_within_their_slice_by_libtpu_and_over_all_slices_by_the_others(
    make_plan: MakePlan, host: int, number: str, within: str, peers: str
) -> None:
    found = on_two_slices(make_plan, host)
    assert (found["TPU_WORKER_ID"], found["TPU_WORKER_HOSTNAMES"]) == (within, peers)
    assert (found["MEGASCALE_SLICE_ID"], found["MEGASCALE_NUM_SLICES"]) == (number, "2")
    assert found["MEGASCALE_COORDINATOR_ADDRESS"] == "a"
    assert (found["JAX_PROCESS_ID"], found["JAX_NUM_PROCESSES"], found["RANK"]) == (str(host), "4", str(host))


def test_jax_finds_the_same_numbers_by_itself(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    from jax._src.clusters.cloud_tpu_cluster import GkeTpuCluster

    stale = {"MEGASCALE_NUM_SLICES": "3", "TPU_PROCESS_ADDRESSES": "x:1,y:1,z:1", "TPU_PROCESS_PORT": "1"}
    for host in range(4):
        for name, value in on_two_slices(make_plan, host, **stale).items():
            monkeypatch.setenv(name, value)
        assert (GkeTpuCluster.get_process_id(), GkeTpuCluster.get_process_count()) == (host, 4)


def test_who_a_host_is_comes_from_the_plan_alone(make_plan: MakePlan) -> None:
    stale = {"MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "2", "MEGASCALE_COORDINATOR_ADDRESS": "old"}
    found = of(make_plan(platform="tpu"), TPU_WORKER_ID="9", TPU_PROCESS_ADDRESSES="old:1", **stale)
    assert not set(stale) & set(found)
    assert found["TPU_WORKER_ID"] == "2"
    assert found["TPU_PROCESS_ADDRESSES"] == ",".join(["127.0.0.1:8476"] * 4)
    assert "TPU_PROCESS_ADDRESSES" not in of(make_plan(platform="tpu"))


def test_a_pod_sees_its_own_gpus_and_no_others(make_plan: MakePlan) -> None:
    found = of(make_plan(platform="cuda", backend="jobset"), NVIDIA_VISIBLE_DEVICES="all")
    assert "CUDA_VISIBLE_DEVICES" not in found and found["JAX_PLATFORMS"] == "cuda,cpu"


def test_what_was_put_into_a_pod_was_put_there_for_its_program(make_plan: MakePlan) -> None:
    assert of(make_plan(backend="jobset"), PREFECT_API_KEY="given")["PREFECT_API_KEY"] == "given"


def test_a_host_without_an_environment_has_places_to_write_to(make_plan: MakePlan) -> None:
    plan = make_plan(scratch="/scratch")
    bare = of(plan, HOME="")
    assert (bare["HOME"], bare["TMPDIR"]) == ("/scratch/digits-3/2/home", "/scratch/digits-3/2/tmp")
    assert "/bin" in bare["PATH"]
    assert of(plan, HOME="/root", TMPDIR="/t", PATH="/p")["HOME"] == "/root"
    assert "HOME" not in of(make_plan())


@pytest.mark.parametrize(
    ("inherited", "of_job", "found"),
    [({}, {}, "/a"), ({"PYTHONPATH": "/b"}, {}, "/a:/b"), ({"PYTHONPATH": "/b"}, {"PYTHONPATH": "/c"}, "/a:/c")],
)
def test_what_came_in_an_archive_is_found_there_first(
    make_plan: MakePlan, inherited: dict[str, str], of_job: dict[str, str], found: str
) -> None:
    plan = make_plan(env=of_job)
    assert program_environment(plan, 0, inherited=inherited, own={}, archive="/a")["PYTHONPATH"] == found


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


def through_pathways(make_plan: MakePlan, **env: str) -> dict[str, str]:
    alone = make_plan(1, slices=2, workers=8, devices_per_host=32, platform="proxy", addresses=("head",), env=env)
    inherited = {"TPU_WORKER_ID": "0", "MEGASCALE_NUM_SLICES": "3"}
    return program_environment(alone, 0, inherited=inherited, own={}, archive=None)


def test_a_host_that_drives_all_chips_reaches_them_by_the_proxy_and_is_none_of_a_slice(make_plan: MakePlan) -> None:
    found = through_pathways(make_plan)
    assert (found["JAX_PLATFORMS"], found["JAX_BACKEND_TARGET"]) == ("proxy", "grpc://head:29000")
    assert (found["XCLOUD_ENVIRONMENT"], found["TPU_SKIP_MDS_QUERY"]) == ("GCP", "true")
    assert not [name for name in found if name.startswith(("TPU_WORKER", "MEGASCALE"))]
    assert "JAX_NUM_CPU_DEVICES" not in found
    assert (found["JAX_NUM_PROCESSES"], found["WORLD_SIZE"]) == ("1", "1")


def test_without_the_chips_it_has_as_many_devices_of_cpus(make_plan: MakePlan) -> None:
    found = through_pathways(make_plan, JAX_PLATFORMS="cpu")
    assert (found["JAX_PLATFORMS"], found["JAX_NUM_CPU_DEVICES"]) == ("cpu", "32")
