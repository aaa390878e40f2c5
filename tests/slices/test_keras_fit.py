"""`fit` on one host, told to leave anywhere in its epochs, goes on as if nothing had been, however it is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Slice  # noqa: E402

EPOCHS, AN_EPOCH = 3, 4
BEFORE = {"in_two_fits": 8}  # steps of a fit whose history is not looked at


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Slice]:
    made = Slice(tmp_path, Path(__file__).with_name("keras_program.py"))
    yield made
    made.end()


# The batch before which the notice comes, and the step that is saved: the same, or the last of those done with it.
@pytest.mark.parametrize(
    ("way", "steps"),
    [
        ("in_a_block", {5: 5, 11: 11}),  # within an epoch, the last of all
        ("as_a_callback", {2: 5}),  # the third step of two batches each
        ("without_end", {6: 6}),
        ("in_two_fits", {7: 7}),  # the end of the first fit
        pytest.param("in_a_block", {0: 0, 7: 7}, marks=pytest.mark.long),  # the first, the last of an epoch
        pytest.param("without_end", {0: 0}, marks=pytest.mark.long),
        pytest.param("in_two_fits", {2: 2, 9: 9}, marks=pytest.mark.long),  # within each of them
    ],
)
def test_it_goes_on_with_the_same_weights_and_the_same_history(alone: Slice, way: str, steps: dict[int, int]) -> None:
    (value,) = alone.start_outside("interrupted", way=way, steps=list(steps)).values()
    assert value["epochs"] == EPOCHS
    for step in steps.values():
        done = max(0, step - BEFORE.get(way, 0)) // AN_EPOCH
        assert value[str(step)] == [value["whole"], True, EPOCHS - done], step


def test_the_best_epochs_stay_with_what_they_came_to(alone: Slice) -> None:
    hosts = alone.start_outside("best_of_epochs")
    (value,) = hosts.values()
    losses = value["history"]["val_loss"]
    best = losses.index(min(losses[:3]))
    assert best == 1 and min(losses) in (losses[1], losses[3])
    ends = {str(AN_EPOCH * (epoch + 1) - 1): loss for epoch, loss in enumerate(losses)}
    expected = {step: ends[step] for step in (min(ends, key=lambda step: ends[step]), "15")}

    whole, kept = value["whole"]
    assert {step: metrics["val_loss"] for step, metrics in kept.items()} == expected
    assert all(set(metrics) == {"loss", "mae", "val_loss", "val_mae"} for metrics in kept.values())
    assert value["each"].keys() == kept.keys() and value["each"] == kept
    assert value["left at"] == AN_EPOCH - 1  # the epoch was over by then
    ended, stayed = value["left"]
    assert stayed.pop("3")["val_loss"] == ends["3"], "what a run began with stays"
    assert (ended, stayed) == (whole, kept)
    assert value["never"].keys() == {"15"}
    assert hosts.log(0).count("ended without 'accuracy', by which best=… goes: Keras told of loss") == 1


def test_what_cannot_be_saved_is_refused(alone: Slice) -> None:
    (said,) = alone.start_outside("refusals").values()
    assert "has no weights yet" in said["unbuilt"]
    assert "another model than the one that fit trains" in said["other"]
    assert "does not fit the model given to keras_checkpoints(): " in said["wider"]
    assert "restore" not in said["wider"] and "only=" not in said["wider"], "nobody who calls fit wrote that"
    assert said["best"].startswith("keras_checkpoints(best='loss'): give (metric")
    assert said["every"].startswith("keras_checkpoints(every=0): ")
    assert said["side"].startswith("keras_checkpoints(side=…) is no JSON")
    assert "A list has no position that could be saved: give data=…" in said["data"]
    assert "was given a ndarray: give the model that fit trains" in said["no model"]
    assert "has no optimizer yet" in said["no optimizer"]
    assert "has other variables than when keras_checkpoints() was opened" in said["others"]
    assert "say so by fit(steps_per_epoch=…)" in said["unknown"]


def test_another_backend_than_jax_is_refused() -> None:
    code = "import prefect_tpu; prefect_tpu.keras_checkpoints(None)"
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "Keras runs on numpy: set KERAS_BACKEND=jax before" in done.stderr
