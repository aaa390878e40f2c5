"""What other launchers say is read alike, and what is missing or contradicts is refused by its name."""

from __future__ import annotations

import re

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.bare import Peers, peers
from prefect_tpu.infra.training.info import info

TORCH = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "leader", "MASTER_PORT": "29500"}
JAX = {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "4", "JAX_COORDINATOR_ADDRESS": "leader:6666"}
JAXJOB = {"PROCESS_ID": "1", "NUM_PROCESSES": "4", "COORDINATOR_ADDRESS": "leader", "COORDINATOR_PORT": "6666"}
PODS = {"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "1"}
SLICES = {**PODS, "MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1", "MEGASCALE_COORDINATOR_ADDRESS": "a"}


def found(environment: dict[str, str]) -> Peers:
    read = peers(environment)
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("environment", "host", "hosts", "coordinator"),
    [
        (TORCH, 1, 4, "leader:29501"),
        ({**TORCH, "MASTER_PORT": "65535"}, 1, 4, "leader:65534"),
        ({**TORCH, "JAX_COORDINATOR_PORT": "7000"}, 1, 4, "leader:7000"),
        ({**TORCH, "MASTER_ADDR": "fd00::1"}, 1, 4, "[fd00::1]:29501"),
        ({**TORCH, "MASTER_ADDR": "[fd00::1]"}, 1, 4, "[fd00::1]:29501"),
        (JAX, 1, 4, "leader:6666"),
        ({**JAX, "JAX_COORDINATOR_ADDRESS": "[::1]:6666"}, 1, 4, "[::1]:6666"),
        ({**JAX, "JAX_COORDINATOR_ADDRESS": "::1:6666"}, 1, 4, "[::1]:6666"),
        (JAXJOB, 1, 4, "leader:6666"),
        ({**TORCH, **JAX}, 1, 4, "leader:6666"),
        (PODS, 1, 2, None),
        ({**PODS, "TPU_PROCESS_ADDRESSES": "a:8476,b:8476,c:8476"}, 1, 3, None),
        ({**PODS, "JAX_PLATFORMS": ""}, 1, 2, None),
        ({**PODS, "RANK": "", "WORLD_SIZE": "", "MASTER_ADDR": "", "MASTER_PORT": ""}, 1, 2, None),
        (SLICES, 3, 4, None),
        ({**PODS, **TORCH}, 1, 4, "leader:29501"),
    ],
)
def test_every_launcher_is_understood(
    environment: dict[str, str], host: int, hosts: int, coordinator: str | None
) -> None:
    read = found(environment)
    assert (read.host, read.hosts, read.coordinator) == (host, hosts, coordinator)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"MASTER_ADDR": "leader", "MASTER_PORT": "29500"},
        {"NUM_PROCESSES": "8"},
        {"JAX_COORDINATOR_ADDRESS": "leader:1"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": ""},
        dict.fromkeys(JAXJOB, ""),
        {"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0"},
        {"MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1"},
        {**PODS, "JAX_PLATFORMS": "cpu"},
    ],
)
def test_nothing_is_read_where_a_process_is_alone(environment: dict[str, str]) -> None:
    assert peers(environment) is None


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (
            {"RANK": "1", "MASTER_PORT": "1"},
            "RANK, MASTER_PORT say .* but not WORLD_SIZE and MASTER_ADDR: set",
        ),
        ({"WORLD_SIZE": "4", "RANK": ""}, "WORLD_SIZE say .* but not RANK and MASTER_ADDR and MASTER_PORT"),
        ({"COORDINATOR_ADDRESS": "a"}, "but not PROCESS_ID and NUM_PROCESSES and COORDINATOR_PORT"),
        *(
            (
                {**JAX, "JAX_COORDINATOR_ADDRESS": address},
                f"_ADDRESS is {re.escape(repr(address))}: give it as address:p",
            )
            for address in (
                "leader",
                "leader:99999",
                "leader:0",
                "http://leader:6666",
                ":1",
                "[::1]",
                "a:" + "1" * 5000,
            )
        ),
        (
            {**TORCH, "MASTER_ADDR": "leader:29500"},
            "MASTER_ADDR is 'leader:29500': give an address alone; MASTER_PORT has the port",
        ),
        ({**TORCH, "RANK": "4"}, "RANK is 4, and WORLD_SIZE tells of 4: numbers are counted from 0"),
        ({**TORCH, "WORLD_SIZE": "many"}, "WORLD_SIZE is 'many': give a whole number"),
        ({**TORCH, "WORLD_SIZE": "0"}, "WORLD_SIZE is 0: give a whole number from 1"),
        ({**TORCH, "MASTER_PORT": "70000"}, "MASTER_PORT is '70000': give the number of a port"),
        (
            {**TORCH, **JAX, "JAX_NUM_PROCESSES": "8"},
            r"which process this is: 1 of 8 \(JAX_PROCESS_ID, JAX_NUM_PROCESSES\) and 1 of 4 \(RANK, WORLD_SIZE\)",
        ),
        ({"TPU_WORKER_HOSTNAMES": "a,b"}, "TPU_WORKER_HOSTNAMES has 2 hosts .* TPU_WORKER_ID does not say which"),
        (
            {**PODS, "TPU_WORKER_ID": "2"},
            "TPU_WORKER_ID is 2, and TPU_WORKER_HOSTNAMES tells of 2: numbers are counted from 0",
        ),
        ({**SLICES, "MEGASCALE_SLICE_ID": "-1"}, "MEGASCALE_SLICE_ID is -1, and MEGASCALE_NUM_SLICES tells of 2"),
        ({**SLICES, "MEGASCALE_NUM_SLICES": "0"}, "MEGASCALE_NUM_SLICES is 0: give a whole number from 1"),
        ({**PODS, "MEGASCALE_NUM_SLICES": "2"}, "of each of 2 slices, and MEGASCALE_SLICE_ID does not say which"),
    ],
)
def test_what_is_missing_or_wrong_is_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        peers(environment)


def test_processes_of_one_machine_have_a_gpu_each() -> None:
    of_machine = {**TORCH, "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}
    assert found(of_machine).device == 3
    assert found({**of_machine, "CUDA_VISIBLE_DEVICES": "0,1,2,3"}).device == 3
    assert found({**of_machine, "CUDA_VISIBLE_DEVICES": "2"}).device is None, "it was given its own"
    assert found({**of_machine, "JAX_LOCAL_DEVICE_IDS": "2"}).device is None, "JAX reads it itself"
    assert found({**TORCH, "LOCAL_RANK": "0"}).device is None


def test_processes_of_an_earlier_start_are_told_apart() -> None:
    elastic = {**TORCH, "TORCHELASTIC_RUN_ID": "my run", "TORCHELASTIC_RESTART_COUNT": "1"}
    assert found(elastic).run == "myrun/1"


def test_info_tells_of_the_launcher_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCH.items():
        monkeypatch.setenv(name, value)
    assert (info().host, info().hosts, info().is_leader, info().inside_job) == (1, 4, False, False)
