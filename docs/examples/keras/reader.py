"""A convolutional network that reads digits: Keras on JAX, trained by `model.fit` on every chip of a slice.

`main` trains it and `evaluate` judges it; both take the weights that the job starts with, if it was told of any.
"""

from __future__ import annotations

import os

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
    an_epoch = len(digits) // batch
    with tpu.checkpoints() as checkpoints:
        saving = Saving(checkpoints, restore(model, checkpoints))
        while saving.step < epochs * an_epoch:
            epoch, done = divmod(saving.step, an_epoch)  # some are done where an attempt ended within an epoch
            model.fit(
                Batches(pictures, digits, batch, seed, saving.step),
                initial_epoch=epoch,
                epochs=epoch + 1 if done else epochs,
                steps_per_epoch=an_epoch - done,
                callbacks=[saving],
                shuffle=False,  # the batches are shuffled, and alike on all hosts
                verbose=0,
            )
    return score(model, pictures[: an_epoch * batch], digits[: an_epoch * batch])


def evaluate() -> dict[str, float]:
    """How the weights that it is given read the pictures `held_out`."""
    tpu.join()
    model = new_model(0)
    with tpu.checkpoints() as checkpoints:
        restore(model, checkpoints)
    return score(model, *read("held_out"))


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
    model.optimizer.build(model.trainable_variables)  # now: a checkpoint has what it remembers too
    return model


class Saving(keras.callbacks.Callback):
    """Reports each step and saves it when due. Where a host must leave, all of them leave `fit` here."""

    def __init__(self, checkpoints, step):
        super().__init__()
        self.checkpoints, self.step = checkpoints, step

    def on_train_batch_end(self, batch, logs=None):
        tpu.report(self.step, **logs)
        # `self.model` brings the variables up to date; within an epoch `fit` has their newest values elsewhere.
        self.checkpoints.save(self.step, [variable.value for variable in variables(self.model)])
        self.step += 1


def restore(model, checkpoints):
    """The step to go on with."""
    values, step = checkpoints.restore([variable.value for variable in variables(model)])
    for variable, value in zip(variables(model), values, strict=True):
        variable.assign(value)
    return step


def variables(model):
    """Whatever training changes: weights, moving averages, seeds of dropout, what the optimizer remembers."""
    return [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]


class Batches(keras.utils.PyDataset):
    """Shuffled batches without end, from a step on, of each this host's share. The step alone decides which."""

    num_batches = None  # without end

    def __init__(self, pictures, digits, size, seed, first):
        super().__init__()
        self.pictures, self.digits = pictures, digits
        self.size, self.seed, self.first = size, seed, first

    def __getitem__(self, index):
        epoch, batch = divmod(self.first + index, len(self.digits) // self.size)
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.digits))
        chosen = order[batch * self.size : (batch + 1) * self.size]
        return tpu.shard(self.pictures[chosen], self.digits[chosen])


def score(model, pictures, digits):
    share = tpu.shard(pictures, digits)
    return model.evaluate(*share, batch_size=len(share[0]), verbose=0, return_dict=True)


def read(name):
    table = np.loadtxt(tpu.info().data[name], delimiter=",", dtype=np.int32)
    return (table[:, :64].reshape(-1, 8, 8, 1) / 16).astype(np.float32), table[:, 64]
