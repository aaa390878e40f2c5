"""How does a state travel to disk and back? As it is, but for the leaves that Orbax does not take."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement
from prefect_tpu.infra.training.fitting import Leaf, Path

_KEYS = ("key", "idx", "name")  # what JAX calls the word of a dict's, a list's and a field's place


def to_disk(state: Any) -> Any:
    """The state with every leaf in a form that is stored and restored alike.

    What each host holds by itself (an array that is not global) is taken to be
    equal on all hosts; the leader's is stored.

    Raises:
        UsageError: a leaf cannot be stored, or not beside another one.
    """
    import jax

    _check_names(state)
    return jax.tree_util.tree_map_with_path(_to_disk, state)


def check_alike(state: Any) -> None:
    """Raise `UsageError` where hosts hold different arrays that only one of them would store. A collective.

    A host's own arrays that went through a jitted step make a model per host, and nothing else would say so.
    """
    if agreement.peers() == 1:
        return
    digests = _digests(state)
    by_host = [json.loads(text) for text in agreement.from_all(json.dumps(digests))]
    differing = [name for name in digests if any(other.get(name) != digests[name] for other in by_host)]
    if differing:
        raise UsageError(
            f"The hosts hold different values of {', '.join(differing[:4])}{' and more' * (len(differing) > 4)}: each"
            " host trains a model of its own. Lay the state over the whole mesh, and hand the step arrays over all"
            " hosts (jax.make_array_from_process_local_data), never a host's own share."
        )


def _digests(state: Any) -> dict[str, str]:
    """Leaf → SHA-256, of the arrays that each host holds by itself. Single numbers may be a host's own."""
    import jax
    import numpy as np

    own = {
        jax.tree_util.keystr(path) or "the state": leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if isinstance(leaf, jax.Array) and leaf.is_fully_addressable and leaf.size > 1 and not _is_key(leaf)
    }
    return {name: hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest()[:16] for name, leaf in own.items()}


def from_disk(state: Any, stored: Mapping[Path, Any]) -> Any:
    """The state with what was stored, leaf by leaf placed and typed like its own; others stay as they are."""
    import jax

    def filled(path: Any, leaf: Any) -> Any:
        name = path_of(path)
        return _from_disk(leaf, stored[name]) if name in stored else leaf

    return jax.tree_util.tree_map_with_path(filled, state)


def named(tree: Any) -> dict[Path, Any]:
    """Path → leaf. Paths are the same for a state and for what is stored of it."""
    import jax

    return {path_of(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def path_of(keys: Any) -> Path:
    """A path of JAX in words; a field counts by its name, however its node calls it."""
    return tuple(str(next(getattr(key, kind) for kind in _KEYS if hasattr(key, kind))) for key in keys)


def look(leaf: Any) -> Leaf:
    """What a leaf that travels, or Orbax's description of one, looks like."""
    import numpy as np

    if isinstance(leaf, bool | int | float):
        leaf = np.asarray(leaf)
    return Leaf(shape=tuple(leaf.shape), dtype=np.dtype(leaf.dtype))


def mesh_of(state: Any) -> dict[str, int]:
    """The axes of the mesh that most of a state's devices are in, with their sizes; empty where there is none."""
    import jax

    arrays = [leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array)]
    meshes = [leaf.sharding.mesh for leaf in arrays if isinstance(leaf.sharding, jax.sharding.NamedSharding)]
    if not meshes:
        return {}
    return {str(name): int(size) for name, size in max(meshes, key=lambda mesh: mesh.size).shape.items()}


def are_there(state: Any) -> bool:
    """Whether no array of the state was donated to a later computation."""
    import jax

    return not any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(state))


def _to_disk(path: Any, leaf: Any) -> Any:
    import jax
    import numpy as np

    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float):
        raise _unstorable(path, f"a {type(leaf).__name__}")
    _check_stored(path, np.dtype(leaf.dtype) if hasattr(leaf, "dtype") else np.asarray(leaf).dtype, np.size(leaf))
    if isinstance(leaf, jax.Array):
        return np.asarray(leaf) if jax.process_count() > 1 and leaf.is_fully_addressable else leaf
    return np.asarray(leaf) if isinstance(leaf, np.generic) else leaf


def _check_stored(path: Any, dtype: Any, size: int) -> None:
    """Now: Orbax would say so while it writes in the background, and not of which leaf."""
    import tensorstore

    if size == 0:
        raise _unstorable(path, "an array without elements")
    try:
        is_known = tensorstore.dtype(dtype).name == dtype.name  # text of a fixed width would become single letters
    except ValueError:
        is_known = False
    if not is_known:
        raise _unstorable(path, f"of the type {dtype}, which Orbax does not store")


def _check_names(state: Any) -> None:
    """Orbax stores leaves by their paths with dots between the words: of two that are alike it keeps one."""
    import jax

    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state)]
    counted = Counter(".".join(path_of(path)) for path in paths)
    alike = [path for path in paths if counted[".".join(path_of(path))] > 1]
    if alike:
        names = " and ".join(jax.tree_util.keystr(path) for path in alike[:2])
        raise UsageError(
            f"The state cannot be saved: {names} have one name in a checkpoint, {'.'.join(path_of(alike[0]))!r}."
            " Leave the dots out of the keys."
        )


def _unstorable(path: Any, what: str) -> UsageError:
    import jax

    return UsageError(
        f"The state cannot be saved: {jax.tree_util.keystr(path) or 'it'} is {what}."
        " Keep arrays and numbers in it; text goes into side=…."
    )


def _from_disk(leaf: Any, stored: Any) -> Any:
    import jax
    import numpy as np

    if _is_key(leaf):
        data = _from_disk(jax.random.key_data(leaf), stored)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array):
        return _like(leaf, stored)
    return np.asarray(stored)[()] if isinstance(leaf, np.generic) else stored


def _like(leaf: Any, stored: Any) -> Any:
    """An array placed like `leaf`: one that was free to move must be so again, or it no longer fits its mesh."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    if not leaf.committed:
        value = np.asarray(stored)
        return jnp.asarray(value.item() if leaf.weak_type and not leaf.ndim else value)
    return stored if isinstance(stored, jax.Array) else jax.device_put(stored, leaf.sharding)


def _is_key(leaf: Any) -> bool:
    import jax
    import jax.numpy as jnp

    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
