"""Each framework on a slice that loses a host and is preempted: it ends with the same weights, bit for bit.

Each host is a process with its own environment, as the host runner starts it. One run goes through both, another one
through neither; the frameworks of one program train side by side in it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Slice, wait_until  # noqa: E402

PROGRAM = Path(__file__).with_name("framework_program.py")
PAUSE = 0.1  # seconds a step, so that there is time to meet it in its middle

# hosts, devices of each, program, how long it trains, losses at its end at most, how the split weights lie
JAX = ("jax_ways", 4, 1, {"steps": 40}, {"jit", "shard_map", "pmap", "optax", "nnx"}, ["fsdp"])
KERAS = ("keras_model_parallel", 2, 2, {"epochs": 10}, {"keras"}, [None, "model"])


@pytest.mark.parametrize(("case", "hosts", "devices", "params", "names", "split"), [JAX, KERAS], ids=["jax", "keras"])
def test_a_lost_host_and_a_preemption_change_nothing(
    tmp_path: Path,
    case: str,
    hosts: int,
    devices: int,
    params: dict[str, Any],
    names: set[str],
    split: list[str | None],
) -> None:
    undisturbed, disturbed = (Slice(tmp_path / name, PROGRAM) for name in ("undisturbed", "disturbed"))
    try:
        wanted = whole(undisturbed, case, hosts, devices, params)
        found = through_both(disturbed, case, hosts, devices, params)
    finally:
        undisturbed.end()
        disturbed.end()
    assert found[0]["digests"] == wanted[0]["digests"]
    assert {name for value in found for name in value["digests"]} == names
    assert all(value["digests"] == wanted[0]["digests"] for value in [*found, *wanted])
    assert all(0 <= loss < 20 for loss in wanted[0]["losses"].values()), wanted[0]["losses"]  # of 30 at first
    assert wanted[0]["split"] == [split]
    assert wanted[0].get("reductions", {"ENTRY": 1}) == {"ENTRY": 1}, "slopes of small batches cross hosts once a step"


def whole(slice_: Slice, case: str, hosts: int, devices: int, params: dict[str, Any]) -> list[dict[str, Any]]:
    return slice_.start(slice_.plan(hosts, devices), case, **params).values()


def through_both(slice_: Slice, case: str, hosts: int, devices: int, params: dict[str, Any]) -> list[dict[str, Any]]:
    """A preemption of one host, then another one is lost after a save; the third attempt ends."""
    first = slice_.start(slice_.plan(hosts, devices), case, pause=PAUSE, **params)
    first.wait_for_step(3)
    first.processes[-1].send_signal(signal.SIGTERM)
    (step,) = {outcome["preempted"] for outcome in first.outcomes()}
    assert slice_.seals(1) == [step]

    checkpoints = LocalStorage(slice_.output).inside(layout.CHECKPOINTS)
    plan = slice_.plan(hosts, devices, restore=seals.newest_whole(checkpoints), checkpoint_every=0.3)
    second = slice_.start(plan, case, pause=PAUSE, **params)
    wait_until(lambda: bool(slice_.seals(2)), "a save of the second attempt", second)
    second.processes[-1].kill()
    for process in second.processes:  # as the runner does: they wait for the one that is gone
        process.kill()
        process.wait()
    newest = seals.newest_whole(checkpoints)
    assert newest is not None and newest.attempt == 2 and newest.step > step
    return slice_.start(slice_.plan(hosts, devices, restore=newest), case, **params).values()
