"""What of a checkpoint fits a PyTorch program, which parts are taken, and over what hosts meet: no torch."""

from __future__ import annotations

from typing import Any

import pytest

import prefect_tpu
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import torch_state

HERE: dict[str, tuple[int, ...] | None] = {"model.weight": (3, 4), "model.bias": (3,), "more.rates.step": None}


@pytest.mark.parametrize(
    ("found", "all_of_it", "says"),
    [
        (HERE, True, []),
        ({**HERE, "model.head": (2,)}, True, ["model.head: the checkpoint has a tensor of [2], the program nothing"]),
        ({**HERE, "model.head": (2,)}, False, []),
        (
            {**HERE, "model.weight": (3, 5)},
            False,
            ["model.weight: the checkpoint has a tensor of [3, 5], the program a tensor of [3, 4]"],
        ),
        (
            {"model.weight": (3, 4), "model.bias": None, "more.rates.step": None},
            True,
            ["model.bias: the checkpoint has no tensor, the program a tensor of [3]"],
        ),
        (
            {"model.weight": (3, 4), "more.rates.step": None},
            True,
            ["model.bias: the checkpoint has nothing, the program a tensor of [3]"],
        ),
    ],
)
def test_what_does_not_fit_is_named_with_both_sides(found: Any, all_of_it: bool, says: list[str]) -> None:
    assert torch_state.misfits(HERE, found, all_of_it=all_of_it) == says


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("encoder", ["encoder.0.weight", "encoder.1.weight"]),
        ("encoder.", ["encoder.0.weight", "encoder.1.weight"]),
        ("encoder.1.weight", ["encoder.1.weight"]),
        (["encoder.0", "head"], ["encoder.0.weight", "head.bias"]),
        (lambda name: name.endswith("bias"), ["head.bias"]),
    ],
)
def test_a_part_is_named_as_torch_names_it(only: Any, names: list[str]) -> None:
    every = {"encoder.0.weight": 1, "encoder.1.weight": 2, "head.bias": 3}
    assert list(torch_state.chosen(every, only)) == names


@pytest.mark.parametrize("only", ["enc", ["encoder", "tail"], [], lambda name: False])
def test_a_name_of_nothing_is_refused(only: Any) -> None:
    with pytest.raises(UsageError, match=r"names no tensor of the model. It has encoder.weight, head.bias"):
        torch_state.chosen({"encoder.weight": 1, "head.bias": 2}, only)


def test_what_accelerate_has_wrapped_is_unwrapped() -> None:
    class Wrapped:
        optimizer = "theirs"

    assert torch_state.optimizers(None) == ()
    assert torch_state.optimizers("own") == ("own",)
    assert torch_state.optimizers(["own", Wrapped()]) == ("own", "theirs")


@pytest.mark.parametrize(
    ("framework", "says"),
    [
        ("tensorflow", "MultiWorkerMirroredStrategy, under which Keras 3 does not train. Set KERAS_BACKEND=jax"),
        ("mxnet", "give 'jax' or 'torch'"),
    ],
)
def test_hosts_meet_over_no_other_framework(framework: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        prefect_tpu.join(framework)


def test_what_has_no_state_is_refused() -> None:
    with pytest.raises(UsageError, match=r"more=\{'rates': …\}.*a float: give what has state_dict"):
        prefect_tpu.torch_checkpoints("model", more={"rates": 0.1})
    with pytest.raises(UsageError, match="A list has no position that could be saved: give data=… what has"):
        prefect_tpu.torch_checkpoints("model", data=[1])
