"""A refusal names the call that the program wrote: whoever trains with one framework does not know another's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.checkpoints import checkpoints
from prefect_tpu.infra.training.torch_checkpoints import torch_checkpoints
from prefect_tpu.infra.training.transformers_trainer import transformers_trainer

# What of a transformers.Trainer is looked at before it trains.
ARGUMENTS = {"load_best_model_at_end": False, "save_strategy": "no", "save_only_model": False, "eval_strategy": "epoch"}

CALLS: dict[str, Callable[..., object]] = {
    "checkpoints": checkpoints,
    "torch_checkpoints": lambda **asked: torch_checkpoints(None, **asked),
    "transformers_trainer": lambda **asked: transformers_trainer(
        SimpleNamespace(args=SimpleNamespace(**ARGUMENTS)), **asked
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"every": 0}, "(every=0): give a number of seconds"),
        ({"steps": 0}, "(steps=0): give a whole number of steps"),
        ({"best": ("eval_loss", "min")}, "(best=('eval_loss', 'min')): give (metric,"),
        ({"side": {1, 2}}, "(side=…) is no JSON"),
        ({"side": "x" * 2**19}, "(side=…) is 524290 bytes of JSON"),
    ],
)
def test_it_names_the_call_that_was_made(call: str, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        CALLS[call](**asked)
    assert str(refused.value).startswith(f"{call}{says}")
