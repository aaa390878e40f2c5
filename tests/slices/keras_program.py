"""Programs of one host for test_keras_fit.py: `fit` is interrupted and called again, and refusals."""

from __future__ import annotations

import math
import os
import signal
import sys
from functools import partial
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
sys.path.append(str(Path(__file__).parent))  # a host does not look beside its program by itself

import keras  # noqa: E402
import numpy as np  # noqa: E402
import training_program  # noqa: E402
from training_program import digest  # noqa: E402

import prefect_tpu as tpu  # noqa: E402
from prefect_tpu.infra import retention  # noqa: E402
from prefect_tpu.infra.storage import LocalStorage  # noqa: E402

ROWS, BATCH, EPOCHS = 32, 8, 3
AN_EPOCH = ROWS // BATCH


def table():
    x = np.random.default_rng(5).normal(size=(ROWS, 4)).astype(np.float32)
    return x, x.sum(axis=1)


def new_model():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    return model


class NoticeAt(keras.callbacks.Callback):
    """This process is told to leave before a batch, counted over all epochs."""

    def __init__(self, step):
        super().__init__()
        self.left = step

    def on_train_batch_begin(self, batch, logs=None):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        self.left -= 1


class Endless(keras.utils.PyDataset):
    """Batches that what was drawn before decides."""

    num_batches = None

    def __init__(self):
        super().__init__()
        self.drawn = 0

    def __getitem__(self, index):
        self.drawn += 1
        chosen = np.random.default_rng(self.drawn).permutation(ROWS)[:BATCH]
        return tuple(part[chosen] for part in table())

    def get_state(self):
        return {"drawn": self.drawn}

    def set_state(self, state):
        self.drawn = state["drawn"]


def in_a_block(directory, callbacks):
    model, (x, y) = new_model(), table()
    with tpu.keras_checkpoints(model, directory=directory) as saving:
        fitted = model.fit(
            x, y, batch_size=BATCH, epochs=EPOCHS, validation_data=(x, y), callbacks=[saving, *callbacks], verbose=0
        )
    return model, fitted.history


def as_a_callback(directory, callbacks):
    """Two batches make one step of Keras's; what is computed has 16 bits, the weights 32."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model, (x, y) = new_model(), table()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert (model.layers[-1].compute_dtype, model.layers[-1].kernel.dtype) == ("bfloat16", "float32")
    model.steps_per_execution = 2
    saving = tpu.keras_checkpoints(model, directory=directory)
    fitted = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, callbacks=[saving, *callbacks], verbose=0)
    return model, fitted.history


def in_two_fits(directory, callbacks):
    """The first one is not done again where the second one was interrupted."""
    model, (x, y) = new_model(), table()
    with tpu.keras_checkpoints(model, directory=directory) as saving:
        fit = partial(model.fit, x, y, batch_size=BATCH, callbacks=[saving, *callbacks], verbose=0)
        fit(epochs=2)
        np.random.normal()  # what a program draws in between
        fitted = fit(epochs=EPOCHS)
    return model, fitted.history


def without_end(directory, callbacks):
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    model, data = new_model(), Endless()
    with tpu.keras_checkpoints(model, data=data, directory=directory) as saving:
        fitted = model.fit(
            data, steps_per_epoch=AN_EPOCH, epochs=EPOCHS, shuffle=False, callbacks=[saving, *callbacks], verbose=0
        )
    return model, fitted.history


def interrupted(way, steps):
    """What each interrupted training came to, beside the one that was not."""
    fit = globals()[way]
    whole = fit(f"{way}/whole", [])
    found = {"whole": weights(whole[0]), "epochs": len(whole[1]["loss"])}
    for step in steps:
        try:
            fit(f"{way}/{step}", [NoticeAt(step)])
        except tpu.Preempted as exc:
            model, history = fit(f"{way}/{step}", [])
            tail = {name: values[-len(history[name]) :] for name, values in whole[1].items()}
            found[str(exc.step)] = [weights(model), history == tail, len(history["loss"])]
    return found


def by_epochs(directory, callbacks, best=("val_loss", "min", 1), **options):
    """The third of its four epochs spoils what the first two have learnt."""
    model, (x, y) = new_model(), table()
    rates = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 5.0 if epoch == 2 else 0.05)
    saving = tpu.keras_checkpoints(model, directory=directory, best=best, keep=1, every=math.inf, **options)
    with saving:
        fitted = model.fit(
            x, y, batch_size=BATCH, epochs=4, validation_data=(x, y), callbacks=[saving, rates, *callbacks], verbose=0
        )
    return model, fitted.history


def kept(directory):
    """step → what it was saved with, of the checkpoints that stayed."""
    return {saved.point.step: dict(saved.metrics) for saved in retention.whole(LocalStorage(Path(directory)))}


def best_of_epochs():
    whole = by_epochs("whole", [])
    found = {"history": whole[1], "whole": [weights(whole[0]), kept("whole")]}
    by_epochs("each", [], steps=1)  # also where the last step of an epoch is due before its metric is there
    found["each"] = kept("each")
    try:
        by_epochs("left", [NoticeAt(AN_EPOCH - 1)])
    except tpu.Preempted as exc:
        found["left at"] = exc.step
    found["left"] = [weights(by_epochs("left", [])[0]), kept("left")]
    by_epochs("never", [], best=("accuracy", "max", 1))
    found["never"] = kept("never")
    return found


def weights(model):
    return digest([*(v.value for v in model.variables), *(v.value for v in model.optimizer.variables)])


def refusals():
    x, y = table()
    unbuilt = keras.Sequential([keras.layers.Dense(1)])
    unbuilt.compile("adam", "mse")
    other = new_model()
    said = {"unbuilt": said_by(lambda: tpu.keras_checkpoints(unbuilt))}
    stranger = tpu.keras_checkpoints(new_model(), directory="refusals")
    said["other"] = said_by(lambda: other.fit(x, y, callbacks=[stranger], verbose=0))
    unknown = tpu.keras_checkpoints(other, directory="refusals", best=("loss", "min", 1))
    said["unknown"] = said_by(lambda: other.fit((batch for batch in [(x, y)]), callbacks=[unknown], verbose=0))
    with tpu.keras_checkpoints(other, directory="refusals") as saving:
        other.fit(x, y, callbacks=[saving], verbose=0)
    wider = keras.Sequential([keras.Input((5,)), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    wider.compile("adam", "mse")
    said["wider"] = said_by(lambda: tpu.keras_checkpoints(wider, directory="refusals").__enter__())
    said["best"] = said_by(lambda: tpu.keras_checkpoints(other, best="loss"))
    said["every"] = said_by(lambda: tpu.keras_checkpoints(other, every=0).__enter__())
    said["side"] = said_by(lambda: tpu.keras_checkpoints(other, side={1, 2}).__enter__())
    said["data"] = said_by(lambda: tpu.keras_checkpoints(other, data=[1]))
    said["no model"] = said_by(lambda: tpu.keras_checkpoints(x))
    bare = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    said["no optimizer"] = said_by(lambda: tpu.keras_checkpoints(bare))
    with tpu.keras_checkpoints(compiled(bare), directory="tuned") as saving:
        bare.layers[0].trainable = False
        bare.compile("sgd", "mse")
        said["others"] = said_by(lambda: bare.fit(x, y, callbacks=[saving], verbose=0))
    return said


def compiled(model):
    """One of its metrics is called as a parameter of ours is."""
    model.compile("adam", "mse", metrics=[keras.metrics.MeanAbsoluteError(name="step")])
    model.fit(*table(), callbacks=[tpu.keras_checkpoints(model, directory="compiled")], verbose=0)
    return model


def said_by(call):
    try:
        call()
    except tpu.UsageError as exc:
        return str(exc)
    return None


if __name__ == "__main__":
    training_program.main(globals())
