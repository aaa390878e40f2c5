"""The Keras example on several hosts: a preempted run ends with the same model, bit for bit, and judges agree on it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from prefect_tpu.infra.launcher.checkpoints import sealed
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
READER = EXAMPLES / "keras" / "reader.py"
SLICE = "cpu-2x2"
ROWS, BATCH, EPOCHS = 1408, 16, 2
AN_EPOCH = ROWS // BATCH
PREEMPTED_AT = 12
SECONDS = 280.0  # to import Keras and to compile, three times, takes one on a busy machine
DRILLS = (
    f"slow@step={PREEMPTED_AT - 2},host=1",
    f"preempt@step={PREEMPTED_AT},host=1",  # it leaves in the first epoch
    f"kill@step={AN_EPOCH + 4},attempt=2",  # and is lost in the second one
)


@pytest.fixture(scope="module")
def trained(new_machine: Callable[[], Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A machine with two jobs that have trained alike, one of them through a preemption, and their results."""
    with new_machine() as machine:
        rows = gzip.decompress((EXAMPLES / "data" / "digits.csv.gz").read_bytes()).splitlines(keepends=True)
        (machine.folder / "digits.csv").write_bytes(b"".join(rows[:ROWS]))
        (machine.folder / "held_out.csv").write_bytes(b"".join(rows[-384:]))
        words = ("main", "--data", "digits=digits.csv", "-p", f"epochs={EPOCHS}", "-p", f"batch={BATCH}")
        whole = start(machine, "whole", *words)
        preempted = start(machine, "preempted", *words, *(word for drill in DRILLS for word in ("--drill", drill)))
        yield machine, {"whole": result(whole), "preempted": result(preempted)}
        assert machine.left() == []


def start(machine: Any, name: str, function: str, *words: str, on: str = SLICE) -> Any:
    asked = ("run", f"{READER}:{function}", "--name", name, "-a", on, "--json", *words)
    return machine.prefect_tpu(*asked, PREFECT_TPU_LOCAL_SLICES="2")


def result(process: Any) -> dict[str, Any]:
    assert process.wait(SECONDS) == 0, process.err
    found: dict[str, Any] = json.loads(process.out.splitlines()[-1])
    return found


def weights(job: Path) -> list[np.ndarray[Any, Any]]:
    """Of its last checkpoint: all that the program keeps."""
    point = sealed(LocalStorage(job))[0]
    folder = job / "checkpoints" / str(point.attempt) / str(point.step) / "state"
    with ocp.PyTreeCheckpointer() as checkpointer:
        shapes = checkpointer.metadata(folder).item_metadata.tree
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
        found: list[np.ndarray[Any, Any]] = jax.tree.leaves(checkpointer.restore(folder, restore_args=as_numpy))
    return found


def test_a_preempted_run_goes_on_within_the_epoch(trained: tuple[Any, dict[str, Any]]) -> None:
    first, second, third = trained[1]["preempted"]["attempts"]
    assert (first["outcome"], second["outcome"], third["outcome"]) == ("preempted", "host_lost", "succeeded")
    assert PREEMPTED_AT <= first["last_step"] == first["saved_step"] < AN_EPOCH - 1
    assert second["first_step"] == first["saved_step"] + 1 and second["last_step"] >= AN_EPOCH + 4
    assert (third["first_step"], third["last_step"]) == (first["saved_step"] + 1, EPOCHS * AN_EPOCH - 1)


def test_it_ends_with_the_same_model_bit_for_bit(trained: tuple[Any, dict[str, Any]]) -> None:
    machine, results = trained
    whole, preempted = (weights(machine.output / name) for name in ("whole", "preempted"))
    assert len(whole) == len(preempted) > 10
    for one, other in zip(whole, preempted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert results["preempted"]["value"] == results["whole"]["value"]
    assert results["whole"]["value"]["accuracy"] > 0.8


def test_judges_on_one_host_and_on_two_agree(trained: tuple[Any, dict[str, Any]]) -> None:
    machine, _ = trained
    words = ("evaluate", "--data", "held_out=held_out.csv", "--start-from", str(machine.output / "whole"))
    on_two = start(machine, "judge-on-two", *words)
    on_one = start(machine, "judge-on-one", *words, on="cpu")
    one, two = result(on_one)["value"], result(on_two)["value"]
    assert one["accuracy"] == two["accuracy"] > 0.7
    assert one["loss"] == pytest.approx(two["loss"], rel=1e-4)
