"""Where was each host in its data? Stored with a step, so that a restored program draws the next batch."""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement


class DataIterator(Protocol):
    """What Grain's iterators offer, and any other can."""

    def get_state(self) -> Any: ...

    def set_state(self, state: Any) -> None: ...


def positions(data: DataIterator) -> list[Any]:
    """Every host's position, as JSON. A collective."""
    state = data.get_state()
    packed = {"base64": base64.b64encode(state).decode()} if isinstance(state, bytes) else {"json": state}
    try:
        return [json.loads(text) for text in agreement.from_all(json.dumps(packed))]
    except TypeError as exc:
        raise UsageError(
            f"The position of {type(data).__name__} cannot be saved: {exc}. Let get_state() return JSON or bytes."
        ) from exc


def set_position(data: DataIterator, stored: list[Any], host: int, hosts: int) -> None:
    """Go on where this host was. On another number of hosts: where the leader was."""
    packed = stored[host] if len(stored) == hosts else stored[0]
    data.set_state(base64.b64decode(packed["base64"]) if "base64" in packed else packed["json"])
