"""Hosts that another launcher started meet, and a mesh over two slices has the order that JAX gives it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Slice, free_port  # noqa: E402

PROGRAM = Path(__file__).with_name("joining_program.py")
AXES = {"data": 2, "tp": 2}


@pytest.fixture
def slice_(tmp_path: Path) -> Iterator[Slice]:
    made = Slice(tmp_path, PROGRAM)
    yield made
    made.end()


def test_processes_of_torchrun_meet_beside_its_own_port(slice_: Slice) -> None:
    said = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    hosts = slice_.start_peers([{**said, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)], "joined")
    found = hosts.values()
    numbers = [one.pop("from the leader") for one in found]
    assert found == [{"before": [rank, 2, False], "jax": [rank, 2, 2], "sum": 2.0} for rank in range(2)]
    assert numbers == [[0, -1, 2**31, 3 * 10**9, -(2**40), 2**62]] * 2, "a step may count samples"
    assert "prefect-tpu: host 1 of 2 has 1 of 2 devices (cpu): " in hosts.log(1)


def test_pods_of_gke_are_left_to_jax_which_says_why_it_finds_none(slice_: Slice) -> None:
    """This machine has no TPU, by which JAX would know that the words are meant for it."""
    pod = {"TPU_WORKER_HOSTNAMES": "one,two", "TPU_WORKER_ID": "1", "JAX_PLATFORMS": "tpu,cpu"}
    (outcome,) = slice_.start_peers([pod], "joined").outcomes()
    assert outcome["error"] == "CouldNotJoin"
    assert "the others of host 1 of 2" in outcome["message"] and "unset TPU_WORKER_HOSTNAMES" in outcome["message"]


def test_hosts_with_unequal_devices_are_refused_on_each(slice_: Slice) -> None:
    said = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}", "JAX_NUM_PROCESSES": "2"}
    environments = [{**said, "JAX_PROCESS_ID": str(n), "JAX_NUM_CPU_DEVICES": str(n + 1)} for n in range(2)]
    for outcome in slice_.start_peers(environments, "joined").outcomes():
        assert outcome["error"] == "WrongSlice"
        assert "different numbers of devices: 1 on host 0, 2 on host 1" in outcome["message"]


def test_processes_that_run_other_code_are_refused_on_each(slice_: Slice) -> None:
    """As in a job: they would wait for each other in collectives for ever."""
    slice_.programs[1] = other = slice_.folder / PROGRAM.name
    other.write_text(f"{PROGRAM.read_text()}# on one machine only\n")
    said = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}", "JAX_NUM_PROCESSES": "2"}
    for outcome in slice_.start_peers([{**said, "JAX_PROCESS_ID": str(n)} for n in range(2)], "joined").outcomes():
        assert outcome["error"] == "HostsDiffer"
        assert f"the code of {PROGRAM.name} is " in outcome["message"] and " on host 1, else " in outcome["message"]


def test_a_fork_of_a_process_that_has_joined_is_told_that_it_is_no_host(slice_: Slice) -> None:
    """Silence would have it compute with what it inherits of JAX, which hangs. One forked before is a host itself."""
    ((before, after),) = slice_.start(slice_.plan(1, 1), "forked").values()
    assert before == "nothing"
    assert after.startswith("UsageError: prefect_tpu.join() was called in process ")
    assert "had joined: it is none of the hosts" in after and "'spawn'" in after


def test_a_mesh_goes_over_two_slices_as_on_tpus(slice_: Slice) -> None:
    """Each host is a slice of its own, with the devices 0, 1 and 2, 3."""
    plan = slice_.plan(2, 2, slices=2, accelerator="cpu-1x2", mesh='{"data": -1, "tp": 2}')
    asked = [
        {},
        {"types": "explicit"},
        {"spec": AXES, "dcn": {"tp": 2}, "types": {"tp": "explicit"}},
        {"spec": AXES, "dcn": {"data": -1}},
        {"spec": AXES, "dcn": {"data": 4}},
        {"spec": {"data": 4, "tp": 1}, "dcn": {"tp": 2}},
    ]
    first, second = slice_.start(plan, "meshes", specs=asked).values()
    assert first == second and first["sum"] == 4.0
    names, auto = ["data", "tp"], "AxisType.Auto"
    of_job, explicit, crossed, along, too_many, indivisible = first["meshes"]
    assert of_job == along == [names, [[0, 1], [2, 3]], [auto, auto]]
    assert explicit[2] == ["AxisType.Explicit"] * 2
    assert crossed == [names, [[0, 2], [1, 3]], [auto, "AxisType.Explicit"]] and crossed[1] == first["hybrid"]
    assert "there are 2" in too_many and "does not divide" in indivisible
