"""The program's side on real JAX processes: agreed saves, preemption, resuming bit for bit, and refusals.

Each host is a process with its own environment, as the host runner starts it.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.training.join import HEARTBEAT_SECONDS

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Hosts, Slice, wait_until  # noqa: E402
from bare_hosts import slice_ as slice_  # noqa: E402  # a fixture, by its being here

STEPS = 60


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Slice, Hosts]]:
    """A run that saves by time and meets nothing; what others must equal bit for bit."""
    made = Slice(tmp_path_factory.mktemp("undisturbed"))
    hosts = made.start(made.plan(2, 1, checkpoint_every=0.3), "train", steps=STEPS, pause=0.02)
    hosts.outcomes()
    yield made, hosts
    made.end()


def test_hosts_save_by_time_at_the_same_steps(undisturbed: tuple[Slice, Hosts]) -> None:
    made, hosts = undisturbed
    first, second = hosts.values()
    assert first["digest"] == second["digest"]
    assert len(made.seals(1)) >= 3 and made.seals(1)[-1] == STEPS - 1
    assert [event["step"] for event in hosts.events(0, Event.SAVED)] == made.seals(1)


def test_progress_and_events_tell_the_whole_run(undisturbed: tuple[Slice, Hosts]) -> None:
    _, hosts = undisturbed
    for host in range(2):
        progress = hosts.progress(host)
        assert (progress["step"], progress["first_step"], progress["saved_step"]) == (STEPS - 1, 0, STEPS - 1)
        assert len(hosts.events(host, Event.JOINED)) == 1
        steps = [event["step"] for event in hosts.events(host, Event.STEP)]
        assert steps[0] == 0 and steps[-1] == STEPS - 1 and steps == sorted(set(steps))
        assert progress["metrics"]["mean"] == hosts.events(host, Event.STEP)[-1]["mean"]


def test_a_notice_to_one_host_saves_the_same_step_on_all(slice_: Slice, undisturbed: tuple[Slice, Hosts]) -> None:
    """And the run goes on from there as if nothing had been, on the same slice and on another one."""
    hosts = slice_.start(slice_.plan(2, 1), "train", steps=STEPS, pause=0.1)
    hosts.wait_for_step(10, host=1)
    hosts.processes[1].send_signal(signal.SIGTERM)
    first, second = hosts.outcomes()
    assert first == second and first["preempted"] >= 10
    step = first["preempted"]
    assert slice_.seals(1) == [step]
    assert hosts.progress(0)["step"] == step and hosts.progress(1)["saved_step"] == step

    whole, restore = undisturbed[1].values()[0], RestorePoint(attempt=1, step=step)
    same = slice_.start(slice_.plan(2, 1, restore=restore), "train", steps=STEPS)
    mine, other = same.values()
    assert (mine["start"], mine["drawn"]) == (step + 1, STEPS)
    assert (mine["restored_from_host"], other["restored_from_host"]) == (0, 1)
    for what in ("digest", "types", "weak"):
        assert mine[what] == other[what] == whole[what]
    (event,) = same.events(0, Event.RESTORED)
    assert (event["step"], event["attempt"]) == (step, 1)

    (value,) = slice_.start(slice_.plan(1, 4, restore=restore), "train", steps=STEPS).values()
    assert (value["start"], value["restored_from_host"]) == (step + 1, 0)
    assert value["digest"] == whole["digest"]


def test_a_notice_is_heard_where_few_steps_are_saved(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1), "train", steps=400, pause=0.02, save_each=7)
    hosts.wait_for_step(10)
    hosts.processes[0].send_signal(signal.SIGTERM)
    first, second = hosts.outcomes()
    assert first == second and first["preempted"] % 7 == 0


def test_a_host_on_its_own_hears_a_notice_and_goes_on_where_it_was(slice_: Slice) -> None:
    """Outside a job: the same block, a folder per run, and what is torn or unsealed is never restored."""
    run = {"steps": STEPS, "every": 0.4, "directory": str(slice_.folder / "mine")}
    hosts = slice_.start_outside("train", pause=0.05, **run)
    root = slice_.folder / "mine" / "1"
    wait_until(lambda: len(list(root.glob("*.sealed.json"))) >= 2, "the second save", hosts)
    hosts.processes[0].send_signal(signal.SIGTERM)
    (outcome,) = hosts.outcomes()
    sealed = sorted(int(path.name.split(".")[0]) for path in root.glob("*.sealed.json"))
    assert outcome == {"preempted": sealed[-1]}

    next((root / str(sealed[-1])).rglob("manifest.ocdbt")).unlink()  # torn
    shutil.copytree(root / str(sealed[0]), root / "1000")  # never sealed
    (value,) = slice_.start_outside("train", **run).values()
    assert value["start"] == sealed[-2] + 1
    assert (slice_.folder / "mine" / "2" / f"{STEPS - 1}.sealed.json").exists()
    (again,) = slice_.start_outside("train", **run).values()
    assert (again["start"], again["digest"]) == (STEPS, value["digest"])


def test_a_torn_checkpoint_named_by_the_plan_is_refused(slice_: Slice) -> None:
    slice_.start(slice_.plan(1, 1), "train", steps=3).values()
    next((slice_.output / layout.checkpoints(1) / "2").rglob("_METADATA")).unlink()
    plan = slice_.plan(1, 1, restore=RestorePoint(attempt=1, step=2))
    (outcome,) = slice_.start(plan, "train", steps=5).outcomes()
    assert outcome["error"] == "PlatformError" and "is not whole" in outcome["message"]


def test_a_failing_host_leaves_the_block_at_once(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1, checkpoint_every=0.2), "train", steps=STEPS, pause=0.02, raise_at=20)
    survivor, failed = hosts.outcomes()
    assert failed == {"error": "ValueError", "message": "asked for at step 20"}
    assert "Gloo" in survivor["message"]  # as a JaxRuntimeError or, from a cached dispatch, a ValueError
    seconds = float(hosts.log(1).split("left the block after ")[1].split()[0])
    assert seconds < HEARTBEAT_SECONDS / 2, "it waited for its peer"
    assert max(slice_.seals(1), default=0) < 20
    assert hosts.progress(1)["step"] == 19


def test_join_checks_the_slice(slice_: Slice) -> None:
    (value,) = slice_.start(slice_.plan(1, 2), "join").values()
    assert value == {"devices": 2, "hosts": 1}
    (outcome,) = slice_.start(slice_.plan(1, 4), "join", devices=2).outcomes()
    assert outcome["error"] == "WrongSlice" and "devices in all: 2 instead of 4" in outcome["message"]
    plan = slice_.plan(1, 1, platform="cuda", gpus=("99",), accelerator="l4")  # that no machine has
    (outcome,) = slice_.start(plan, "join").outcomes()
    assert outcome["error"] == "WrongSlice" and "pip install 'jax[cuda13]'" in outcome["message"]
    plan = slice_.plan(1, 1, platform="tpu", accelerator="v6e-1")  # with a JAX that is not for TPUs
    (outcome,) = slice_.start(plan, "join").outcomes()
    assert outcome["error"] == "WrongSlice" and "pip install 'jax[tpu]'" in outcome["message"]


def test_a_host_that_waits_alone_gives_up(slice_: Slice) -> None:
    plan = slice_.plan(2, 1, join_timeout=3.0)
    (outcome,) = slice_.start(plan, "join", only=0).outcomes()
    assert outcome["error"] == "CouldNotJoin" and "of its 2 hosts 1 did not come" in outcome["message"]


def test_join_after_jax_was_used_says_so(slice_: Slice) -> None:
    for outcome in slice_.start(slice_.plan(2, 1), "join_late").outcomes():
        assert outcome["error"] == "UsageError" and "came too late" in outcome["message"]


def test_what_leaves_devices_idle_is_refused(slice_: Slice) -> None:
    (value,) = slice_.start(slice_.plan(1, 2), "refusals").values()
    assert value == {"messages": ["refused", "refused"], "shape": {"data": 2, "tp": 1}, "axes": ["AxisType.Auto"]}


def test_a_model_per_host_is_not_saved_as_one(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1), "train_apart")
    for outcome in hosts.outcomes():
        assert outcome["error"] == "UsageError" and "different values of ['weights']: each host" in outcome["message"]
    assert slice_.seals(1) == []
