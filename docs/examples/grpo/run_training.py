"""GRPO on sums: a policy learns to answer a + b by the rewards of its own answers. A Hydra program, nothing of ours.

`python run_training.py training.steps=20 'model.mesh_shape=[[1,1],[fsdp,tp]]'`; on slices as README.md beside it says.
"""

from __future__ import annotations

import logging
import os
from functools import partial

import conf  # noqa: F401  # its files travel with what imports it
import hydra
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

MOST = 5  # the summands are below it
log = logging.getLogger("grpo")


@hydra.main(config_path="conf", config_name="config", version_base=None)
def main(config) -> None:
    if int(os.environ.get("JAX_NUM_PROCESSES", "1")) > 1:
        jax.distributed.initialize(
            num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
        )
    sizes, names = config.model.mesh_shape
    mesh = jax.make_mesh(tuple(sizes), tuple(names), axis_types=(jax.sharding.AxisType.Auto,) * len(names))
    if mesh.size != jax.device_count():
        raise SystemExit(f"model.mesh_shape has {mesh.size} devices, and there are {jax.device_count()}.")
    rows, everywhere = (NamedSharding(mesh, spec) for spec in (PartitionSpec(names[0]), PartitionSpec()))
    policy = jax.device_put(new_policy(config), everywhere)
    for step in range(config.training.steps):
        random = np.random.default_rng([config.training.seed, step])  # the same on all hosts
        asked = random.integers(0, MOST, (config.training.questions, 2))
        mine = asked[jax.process_index() :: jax.process_count()]
        questions = jax.make_array_from_process_local_data(rows, mine)
        policy, reward = improve(policy, questions, jax.random.key(step), config.grpo.group, config.grpo.clip,
                                 config.training.learning_rate)  # fmt: skip
        if step % 10 == 0 or step == config.training.steps - 1:
            log.info("step %s: reward %.3f", step, reward)


def new_policy(config):
    random = np.random.default_rng(config.training.seed)

    def layer(inputs, outputs):
        return random.normal(0, (1 / inputs) ** 0.5, (inputs, outputs)).astype(np.float32)

    return {"first": layer(2 * MOST, config.model.hidden), "second": layer(config.model.hidden, 2 * MOST - 1)}


def scores(policy, questions):
    """The logarithm of how likely each answer is."""
    seen = jax.nn.one_hot(questions, MOST).reshape(len(questions), -1)
    return jax.nn.log_softmax(jnp.tanh(seen @ policy["first"]) @ policy["second"])


@partial(jax.jit, static_argnums=(3, 4, 5))
def improve(policy, questions, key, group, clip, rate):
    before = scores(policy, questions)
    answers = jax.random.categorical(key, before, shape=(group, len(questions)))
    rewards = (answers == questions.sum(1)).astype(jnp.float32)
    # What an answer is worth, against the others of its group.
    advantages = (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-4)

    def loss(policy):
        likely = jnp.take_along_axis(scores(policy, questions)[None], answers[..., None], axis=2)[..., 0]
        ratio = jnp.exp(likely - jax.lax.stop_gradient(likely))
        return -jnp.mean(jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages))

    slope = jax.grad(loss)(policy)
    return jax.tree.map(lambda value, g: value - rate * g, policy, slope), rewards.mean()


if __name__ == "__main__":
    main()
