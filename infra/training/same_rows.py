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
    said = "; ".join(f"{_hosts(hosts)}: {saying}" for saying, hosts in by_saying.items())
    return (
        f"The hosts hand different rows to global_array(). {said}. Give it equal shares, such as prefect_tpu.shard and"
        " prefect_tpu.batches hand out."
    )


def _told(shapes: Shapes) -> str:
    return ", ".join(f"{name} {kind}{list(shape)}" for name, (kind, shape) in shapes.items())


def _hosts(hosts: list[int]) -> str:
    few = ", ".join(map(str, hosts[:4])) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    return f"host{'s' * (len(hosts) > 1)} {few}"


def _ask(own: str) -> None:
    """Say what this host has, and hear the leader's verdict on what all have."""
    global _asked
    _asked += 1
    client = _coordination()
    if client is None:
        verdict = difference(agreement.from_all(own))
    else:
        asked = f"prefect_tpu/rows/{_asked}"
        verdict = _judge(client, asked, own) if agreement.is_leader() else _hear(client, asked, own)
    if verdict:
        raise UsageError(verdict)


def _coordination() -> Any | None:
    """JAX's client of its own service; None where a version of JAX keeps it elsewhere."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    return getattr(global_state, "client", None)


def _judge(client: Any, asked: str, own: str) -> str:
    """On the leader: collect, compare, and tell all."""
    end, told = time.monotonic() + PATIENCE, [own]
    verdict = ""
    for host in range(1, agreement.peers()):
        saying = _wait(client, f"{asked}/{host}", end)
        if saying is None:
            verdict = _alone(own, 0, host)
            break
        told.append(saying)
    verdict = verdict or difference(told)
    client.key_value_set(f"{asked}/verdict", json.dumps(verdict))
    if verdict:  # the service ends with the leader, which leaves now: let the others hear why
        end = time.monotonic() + FAREWELL
        for host in range(1, agreement.peers()):
            _wait(client, f"{asked}/{host}/heard", end)
    return verdict


def _hear(client: Any, asked: str, own: str) -> str:
    host = agreement.place()[0]
    client.key_value_set(f"{asked}/{host}", own)
    verdict = _wait(client, f"{asked}/verdict", time.monotonic() + PATIENCE + FAREWELL)
    client.key_value_set(f"{asked}/{host}/heard", "")
    return _alone(own, host, 0) if verdict is None else str(json.loads(verdict))


def _alone(own: str, host: int, other: int) -> str:
    return (
        f"Host {host} hands rows to global_array() that are new: {own}. Host {other} has none such within"
        f" {PATIENCE:.0f} s. Give it equal shares, such as prefect_tpu.shard and prefect_tpu.batches hand out."
    )


def _wait(client: Any, key: str, end: float) -> str | None:
    """What was said there; None where nothing was until the end."""
    import jax

    try:
        return str(client.blocking_key_value_get(key, max(1, int((end - time.monotonic()) * 1000))))
    except jax.errors.JaxRuntimeError as exc:
        if "DEADLINE_EXCEEDED" in str(exc):
            return None
        raise
