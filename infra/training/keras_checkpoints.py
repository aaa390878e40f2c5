"""How does `model.fit` save, leave at a preemption and go on where it was? By one callback."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.training.data_position import DataIterator

if TYPE_CHECKING:
    from prefect_tpu.infra.training.keras_callback import KerasCheckpoints


def keras_checkpoints(
    model: Any,
    *,
    data: DataIterator | None = None,
    every: float | None = None,
    steps: int | None = None,
    best: tuple[str, str, int] | None = None,
    keep: int | None = None,
    directory: Path | str | None = None,
    side: Any = None,
) -> KerasCheckpoints:
    """Checkpoints of a Keras model that `model.fit` trains on JAX: a block, and in it a callback for `fit`.

    The block gives the model its saved weights; `fit(…, callbacks=[…])` then goes on with the batch after the saved
    one, also in the middle of an epoch. Steps, counted from 0 over all epochs, are reported, and saved when due, at a
    preemption and at the block's end. As a callback without the block it opens one for that `fit` alone. Several calls
    of `fit` belong into one block: those that were done before a restart do nothing then.

    Of the epoch it was in, `fit` draws the batches that are done once more and leaves them out. So they must come
    again: arrays do, shuffled by Keras, and so does a `PyDataset` whose batches an index decides.

    Args:
        model: a compiled model whose weights are there.
        data: for a `PyDataset` without end, something with `get_state()`, which gives JSON, and `set_state()`: its
            position is put back instead. Give Keras a distribution then: without one it draws a batch ahead.
        every: seconds between two saves; by default the job's, 10 minutes. `math.inf` for none by time.
        best: as of `checkpoints`, such as `("val_loss", "min", 3)`, by what Keras tells of an epoch at its end, after
            its validation: the last step of each epoch is saved with it.
        steps, keep, directory, side: as of `prefect_tpu.checkpoints`.

    Returns:
        The callback; its `step` is the one to go on with.

    Raises:
        UsageError: Keras does not run on JAX, the model has no weights yet, there are several hosts and no
            distribution, or what was saved does not fit the model; from `fit`, `best` is given and Keras does not know
            how many steps an epoch has.
    """
    from prefect_tpu.infra.training.keras_callback import KerasCheckpoints

    options = {"every": every, "steps": steps, "best": best, "keep": keep, "directory": directory, "side": side}
    return KerasCheckpoints(model, data, options)
