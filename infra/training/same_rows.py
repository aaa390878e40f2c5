"""Do all hosts hand over rows alike? Asked where shapes are new to a host, at once answered where they are not.

Hosts of which one has another shape would each believe in another global array, and wait for each other for ever in
the next step. No collective of JAX's can ask: the host with the new shape would be in it alone. So it asks through
JAX's coordination service, which can be waited for with an end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement
from prefect_tpu.infra.training.board import Board, hear, open_board
from prefect_tpu.infra.training.trail import listed

PATIENCE = 300.0  # seconds that one host may come after another
FAREWELL = 5.0  # seconds for all to hear what is wrong

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]  # name → (type, shape)

_known: set[tuple[Any, ...]] = set()
_asked = 0


def check(shapes: Shapes) -> None:
    """Raise `UsageError` where hosts differ. Every host calls it, in the same order."""
    key = tuple(shapes.items())
    if key in _known:
        return
    if agreement.peers() > 1:
        _ask(_told(shapes))
    _known.add(key)


def difference(told: list[str]) -> str:
    """What is wrong with what the hosts said, by host; empty where they say the same."""
    by_saying: dict[str, list[int]] = {}
    for host, saying in enumerate(told):
        by_saying.setdefault(saying, []).append(host)
    if len(by_saying) < 2:
        return ""
    said = "; ".join(f"{listed(hosts, shown=4)}: {saying}" for saying, hosts in by_saying.items())
    return (
        f"The hosts hand different rows to global_array(). {said}. Give it equal shares, such as prefect_tpu.shard and"
        " prefect_tpu.batches hand out."
    )


def _told(shapes: Shapes) -> str:
    return ", ".join(f"{name} {kind}{list(shape)}" for name, (kind, shape) in shapes.items())


def _ask(own: str) -> None:
    """Say what this host has, and hear the leader's verdict on what all have."""
    global _asked
    _asked += 1
    told = _board()
    if told is None:
        verdict = difference(agreement.from_all(own))
    else:
        asked = f"rows/{_asked}"
        verdict = _judge(told, asked, own) if told.host == 0 else _ask_leader(told, asked, own)
        if verdict:  # the service ends with the leader, which leaves now: let the others hear why
            hear(told, f"{asked}/verdict", FAREWELL)
    if verdict:
        raise UsageError(verdict)


def _board() -> Board | None:
    """None where a version of JAX keeps it elsewhere."""
    try:
        return open_board()
    except (ImportError, AttributeError):
        return None


def _judge(told: Board, asked: str, own: str) -> str:
    """On the leader: collect, compare, and tell all."""
    end, said = time.monotonic() + PATIENCE, [own]
    verdict = ""
    for host in range(1, told.hosts):
        saying = told.wait(f"{asked}/{host}", end - time.monotonic())
        if saying is None:
            verdict = _alone(own, 0, host)
            break
        said.append(saying)
    verdict = verdict or difference(said)
    told.put(f"{asked}/verdict", json.dumps(verdict))
    return verdict


def _ask_leader(told: Board, asked: str, own: str) -> str:
    told.put(f"{asked}/{told.host}", own)
    verdict = told.wait(f"{asked}/verdict", PATIENCE + FAREWELL)
    return _alone(own, told.host, 0) if verdict is None else str(json.loads(verdict))


def _alone(own: str, host: int, other: int) -> str:
    return (
        f"Host {host} hands rows to global_array() that are new: {own}. Host {other} has none such within"
        f" {PATIENCE:.0f} s. Give it equal shares, such as prefect_tpu.shard and prefect_tpu.batches hand out."
    )
