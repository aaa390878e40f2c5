"""What of a Keras model is saved, and how is it put back?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras  # type: ignore[import-untyped]

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement
from prefect_tpu.infra.training.checkpoints import Checkpoints


def check(model: Any) -> None:
    """Raise `UsageError` where the model cannot be trained and saved on this slice."""
    if keras.backend.backend() != "jax":
        raise UsageError(
            f"keras_checkpoints() saves models that Keras trains on JAX, and Keras runs on {keras.backend.backend()}:"
            " set KERAS_BACKEND=jax before Keras is imported."
        )
    if not isinstance(model, keras.Model):
        raise UsageError(f"keras_checkpoints() was given a {type(model).__name__}: give the model that fit trains.")
    if getattr(model, "optimizer", None) is None:
        raise UsageError(
            f"The model {model.name!r} has no optimizer yet, which is saved too: compile the model before"
            " keras_checkpoints()."
        )
    if not model.built:
        raise UsageError(
            f"The model {model.name!r} has no weights yet that could be restored: give it a keras.Input, or call"
            " model.build(shape) before keras_checkpoints()."
        )
    if agreement.peers() > 1 and keras.distribution.distribution() is None:
        raise UsageError(
            f"The model {model.name!r} was made for this host alone, and there are {agreement.peers()}: call"
            " keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False)), or"
            " with a ModelParallel, before the model is made."
        )


def tree(trainable: Sequence[Any], non_trainable: Sequence[Any], optimizer: Sequence[Any]) -> dict[str, list[Any]]:
    """By what Keras calls them, in its order: names are numbered through a process and would not be found again."""
    return {"trainable": [*trainable], "non_trainable": [*non_trainable], "optimizer": [*optimizer]}


def values(model: Any) -> dict[str, list[Any]]:
    """Whatever training changes: weights, moving averages, seeds of dropout, what the optimizer remembers."""
    return {name: [variable.value for variable in found] for name, found in _variables(model).items()}


def shapes(model: Any) -> dict[str, list[tuple[int, ...]]]:
    """What a checkpoint must have to fit the model."""
    return {name: [tuple(variable.shape) for variable in found] for name, found in _variables(model).items()}


def check_shapes(model: Any, opened: dict[str, list[tuple[int, ...]]]) -> None:
    """Raise `UsageError` where the model is another one than when the block was opened, as it will be after a restart.

    The optimizer of a model that was compiled anew has no variables before it is built.
    """
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    if shapes(model) != opened:
        raise UsageError(
            f"The model {model.name!r} has other variables than when keras_checkpoints() was opened, where a restarted"
            " program would restore what is saved now: compile it, and say what is trainable, before. A phase that"
            " trains other parts is a job of its own, with start_from."
        )


def restore(model: Any, block: Checkpoints) -> int:
    """Give the model what was saved; the step to go on with."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)  # now: what is saved has what it remembers too
    stored, step = block.restore(values(model))
    for name, variables in _variables(model).items():
        for variable, value in zip(variables, stored[name], strict=True):
            variable.assign(value)
    return step


def assign_metrics(model: Any, stored: Sequence[Any]) -> None:
    """Let the metrics of an epoch go on from what they had summed up. Other metrics than then begin anew."""
    import numpy as np

    arrays = [np.asarray(value) for value in stored]
    variables = model.metrics_variables
    if [array.shape for array in arrays] == [tuple(variable.shape) for variable in variables]:
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)


def _variables(model: Any) -> dict[str, list[Any]]:
    return tree(model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
