"""How does `model.fit` save, leave at a preemption and go on where it was? By one callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.training.data_position import DataIterator

if TYPE_CHECKING:
    from prefect_tpu.infra.training.keras_callback import KerasCheckpoints


def keras_checkpoints(model: Any, *, data: DataIterator | None = None, **options: Any) -> KerasCheckpoints:
    """Checkpoints of a Keras model that `model.fit` trains on JAX: a block, and the callback in it.

        with tpu.keras_checkpoints(model) as saving:
            model.fit(x, y, epochs=20, callbacks=[saving])

    The block gives the model its saved weights; `fit` then goes on with the batch after the saved one, also in the
    middle of an epoch. Steps, counted from 0 over all epochs, are reported and saved when they are due, at a preemption
    and at the block's end. Without the block, `callbacks=[tpu.keras_checkpoints(model)]` opens one for one `fit`.

    Of the epoch it was in, `fit` draws the batches that are done again and leaves them out. So they must come again:
    arrays do, shuffled by Keras, and a `PyDataset` whose batches an index decides.

    Args:
        model: a compiled model whose weights are there.
        data: for a `PyDataset` without end, something with `get_state()` (JSON) and `set_state()`: its position is put
            back instead. It needs a distribution, because without one Keras draws a batch ahead.
        **options: what `checkpoints` takes, such as `every` and `directory`.

    Raises:
        UsageError: Keras does not run on JAX; the model has no weights yet, or on several hosts no distribution; or
            what was saved does not fit it.
        Preempted: by `fit`, where a host must leave; the step is saved.
    """
    from prefect_tpu.infra.training.keras_callback import KerasCheckpoints

    return KerasCheckpoints(model, data, options)
