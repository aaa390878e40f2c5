"""What is saved when, what stays, and what is read of it: real checkpoints of real JAX processes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.plan import RestorePoint

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Slice  # noqa: E402

PROGRAM = Path(__file__).with_name("saving_program.py")
STEPS = 24
SAME = 1e-5  # of a loss: sums over other devices are added in another order


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[Slice]:
    made = Slice(tmp_path, PROGRAM)
    yield made
    made.end()


def losses(path: Path) -> dict[int, float]:
    """By step, of the attempt that did it last."""
    return {step: loss for step, loss in map(json.loads, path.read_text().splitlines())}


def test_two_slices_then_one_then_two_hosts_and_the_loss_goes_on_where_it_was(saving: Slice) -> None:
    """8 devices on two slices, 4 on one, 8 on one: as the run that nothing came between, to 1e-5 of its loss."""
    whole, went = saving.folder / "whole", saving.folder / "went"
    alone = saving.plan(1, 8, output=str(saving.folder / "out" / "alone"))
    saving.start(alone, "learn", steps=STEPS, losses=str(whole)).values()

    two = saving.start(saving.plan(2, 4, slices=2), "learn", steps=STEPS, losses=str(went), pause=0.1)
    two.wait_for_step(5, host=1)
    two.processes[1].send_signal(signal.SIGTERM)
    step = two.outcomes()[0]["preempted"]
    saved, by_number = set(saving.seals(2)), set(range(3, step + 1, 4))
    assert {0, step} | by_number <= saved <= {0, 6, 12, 18, step} | by_number, "each host saved the same steps"

    plan = saving.plan(1, 4, restore=RestorePoint(attempt=2, step=step))
    (one,) = saving.start(plan, "learn", steps=step + 4, losses=str(went)).values()
    assert one == {"start": step + 1, "mesh": {"fsdp": 8}, "hosts": 2}

    plan = saving.plan(2, 4, restore=RestorePoint(attempt=3, step=step + 3))
    last, _ = saving.start(plan, "learn", steps=STEPS, losses=str(went)).values()
    assert last == {"start": step + 4, "mesh": {"fsdp": 4}, "hosts": 1}

    expected = losses(whole)
    assert losses(went) == pytest.approx(expected, rel=SAME) and len(expected) == STEPS
    assert expected[STEPS - 1] < 0.9 * expected[0], "it learns, so that going on is not starting again"


def test_steps_the_best_and_the_newest_are_saved_and_stay(saving: Slice) -> None:
    """Steps 2, 5 and 8 are due by number, 1 and 6 for their accuracy; 7 is the end of the first run."""
    accuracies = [None, 0.9, 0.1, None, None, 0.2, 0.8, 0.3, 0.4, 0.5]
    directory = str(saving.folder / "kept")
    run = {"directory": directory, "accuracies": accuracies, "begin_again_after": 8}
    (found,) = saving.start_outside("best", **run).values()
    first = [0, None, None]
    second = [8, {"learning_rate": 0.1, "end": 8}, {"accuracy": 0.3}]
    assert found["known"] == [first, second]
    # 7 was where the second run began, and stays while that runs
    assert found["sealed"] == ["1/1", "1/6", "1/7", "2/9"]


def test_a_checkpoint_is_read_in_parts_and_types_or_refused_leaf_by_leaf(saving: Slice) -> None:
    (value,) = saving.start_outside("parts", directory=str(saving.folder / "mine")).values()
    found, refused = value["found"], value["refused"]
    names = set(found["all"][1])
    assert {"params/encoder", "params/head", "moments/0/mean", "moments/1/count", "key"} <= names
    for name, new in {
        "all": names,
        "prefix": {"params/encoder", "params/head"},
        "list": {"params/head", "moments/0/mean", "moments/0/count"},
        "function": {"moments/0/count", "moments/1/count"},
    }.items():
        start, values = found[name]
        fresh = {"moments/0/count": 3.0, "moments/1/count": 1.0}
        saved = {"moments/0/count": 4.0, "moments/1/count": 2.0}
        assert start == 6
        assert values == {leaf: saved.get(leaf, 1.0) if leaf in new else fresh.get(leaf, 0.0) for leaf in names}, name
    assert found["type"] == "bfloat16"
    for case, said in {
        "shape": "params/encoder: the checkpoint has float32[4,2], the state float32[8,2].",
        "missing": "extra: the state has float32[2], the checkpoint nothing.",
        "surplus": "moments/0/mean: the checkpoint has float32[3], the state nothing",
        "kind": "params/encoder: the checkpoint has float32[4,2], which does not become int32[4,2]",
        "nothing": "only='parms' names no leaf of the state. It has ",
        "text": "['text'] is a str. Keep arrays and numbers in it; text goes into side=….",
        "donated": "Step 6 cannot be saved: its state was donated to a later computation.",
        "step": "save() was given a str as its step",
        "negative": "save() was given step -1: steps start at 0 and grow.",
        "foreign": "was not written by prefect_tpu.checkpoints()",
        "outside": "save() was called outside of its block",
        "not begun": "restore() was called outside of its block",
    }.items():
        assert said in refused[case], case


def test_a_folder_that_cannot_be_written_can_be_restored_from(saving: Slice) -> None:
    """A judge of somebody else's model needs no folder of its own there."""
    folder = saving.folder / "theirs"
    hosts = saving.start_outside("only_read", directory=str(folder))
    (found,) = hosts.values()
    assert found["start"] == 6 and found["values"]["params/head"] == 1.0
    assert found["there"] == ["whole/1"], "nothing was written"
    whole, empty = found["said"]["whole"], found["said"]["empty"]
    assert whole.startswith(f"UsageError: Nothing can be saved in {folder}/whole, which cannot be written: restore")
    assert empty.startswith(f"RefusedForGood: Could not write {folder}/empty/") and "permissions" in empty
    assert "none saved. Could not write " in hosts.log(0) and "could not be deleted" not in hosts.log(0)


def test_a_second_block_in_a_job_is_refused(saving: Slice) -> None:
    """It would write over the steps of the first one, or a restart would give it the state of the first one."""
    (outcome,) = saving.start(saving.plan(1, 1), "in_two_blocks").outcomes()
    assert outcome["error"] == "UsageError" and "A second block of checkpoints was opened in job" in outcome["message"]
    assert saving.seals(1) == [0]


def test_another_job_s_encoder_is_trained_on_and_a_failure_loses_nothing(saving: Slice) -> None:
    """What was restored in part is whole once it was saved: the head is not begun again."""
    base = saving.folder / "out" / "base" / layout.CHECKPOINTS
    saving.start_outside("parts", directory=str(base)).values()
    start_from = str(base.parent)

    (failed,) = saving.start(saving.plan(1, 1, start_from=start_from), "tune", fail_at=2).outcomes()
    assert failed == {"error": "ValueError", "message": "asked for"}
    newest = saving.seals(1)[-1]
    assert newest == 1

    plan = saving.plan(1, 1, start_from=start_from, restore=RestorePoint(attempt=1, step=newest))
    (value,) = saving.start(plan, "tune").values()
    began: dict[str, Any] = value["began"]
    assert value["start"] == newest + 1
    assert (began["params/encoder"], began["params/head"]) == (1.0, 20.0)
