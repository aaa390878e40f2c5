"""A convolutional network that reads digits: Keras on JAX, trained by `model.fit` on every chip of a slice.

`main` trains it and `evaluate` judges it; both take the weights that the job starts with, if it was told of any.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported

import keras  # noqa: E402
import numpy as np  # noqa: E402

import prefect_tpu as tpu  # noqa: E402

LEARNING_RATE = 3e-3


def main(epochs: int = 20, batch: int = 128, seed: int = 0) -> dict[str, float]:
    """Train on the pictures `digits`, so many of them at once on all hosts together."""
    tpu.join()
    model = new_model(seed)
    pictures, digits = read("digits")
    rows = len(digits) // batch * batch  # whole batches, which all devices share
    share = tpu.shard(pictures[:rows], digits[:rows])
    with tpu.keras_checkpoints(model) as saving:
        model.fit(*share, batch_size=batch // tpu.info().hosts, epochs=epochs, callbacks=[saving], verbose=0)
    return score(model, *share)


def evaluate() -> dict[str, float]:
    """How the weights that it is given read the pictures `held_out`."""
    tpu.join()
    model = new_model(0)
    with tpu.keras_checkpoints(model):
        return score(model, *tpu.shard(*read("held_out")))


def new_model(seed):
    """The same on all hosts, and whole on each chip."""
    keras.utils.set_random_seed(seed)
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(LEARNING_RATE), loss, metrics=["accuracy"])
    return model


def score(model, pictures, digits):
    return model.evaluate(pictures, digits, batch_size=len(digits), verbose=0, return_dict=True)


def read(name):
    """The pictures of that name; outside a job, all that come with the examples."""
    path = tpu.info().data.get(name, Path(__file__).parents[1] / "data" / "digits.csv.gz")
    table = np.loadtxt(path, delimiter=",", dtype=np.int32)
    return (table[:, :64].reshape(-1, 8, 8, 1) / 16).astype(np.float32), table[:, 64]


if __name__ == "__main__":
    print(main())
