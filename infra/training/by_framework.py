"""Over which frameworks can hosts meet, and what instead of the others?"""

from __future__ import annotations

from prefect_tpu.infra.errors import UsageError


def join(framework: str) -> None:
    """Meet over a framework other than JAX. Raises `UsageError` for one that this cannot be done with."""
    if framework == "torch":
        from prefect_tpu.infra.training import torch_join  # most programs have no use for it

        return torch_join.join()
    if framework == "tensorflow":
        raise UsageError(
            "join('tensorflow') is refused: TensorFlow's hosts meet by its MultiWorkerMirroredStrategy, under which"
            " Keras 3 does not train. Set KERAS_BACKEND=jax, call join() and give the model"
            " keras.distribution.DataParallel: the same Keras model trains on all hosts over JAX."
        )
    raise UsageError(f"join({framework!r}): give 'jax' or 'torch', or nothing, which is 'jax'.")
