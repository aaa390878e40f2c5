"""How do the hosts of a program come to one mind? The leader says it, or all meet."""

from __future__ import annotations

from collections.abc import Sequence

# Each of these is a collective: every host calls it, in the same order, and a
# lost peer makes it raise.


def place() -> tuple[int, int]:
    """(this process's number, how many there are)"""
    import jax

    return jax.process_index(), jax.process_count()


def peers() -> int:
    """How many processes run this program together."""
    return place()[1]


def is_leader() -> bool:
    return place()[0] == 0


def from_leader(values: Sequence[int]) -> tuple[int, ...]:
    """The leader's numbers, on every host."""
    if peers() == 1:
        return tuple(values)
    import numpy as np
    from jax.experimental import multihost_utils

    agreed = multihost_utils.broadcast_one_to_all(np.asarray(values, np.int32))
    return tuple(int(value) for value in agreed)


def from_all(text: str) -> list[str]:
    """Every host's text, by host."""
    if peers() == 1:
        return [text]
    import numpy as np
    from jax.experimental import multihost_utils

    raw = np.frombuffer(text.encode(), np.uint8)
    sizes = multihost_utils.process_allgather(np.asarray([raw.size], np.int32)).reshape(-1)
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: raw.size] = raw
    rows = multihost_utils.process_allgather(padded)
    return [bytes(row[:size]).decode() for row, size in zip(np.asarray(rows, np.uint8), sizes, strict=True)]


def meet(place: str) -> None:
    """Go on only when every host is here."""
    if peers() == 1:
        return
    from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices(place)
