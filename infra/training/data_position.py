"""Where was each host in its data? Stored with a step, so that a restored program draws the next batch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Protocol

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement


class WithState(Protocol):
    """What `prefect_tpu.batches` and Grain's iterators offer, and any other can."""

    def get_state(self) -> Any: ...

    def set_state(self, state: Any) -> None: ...


class WithStateDict(Protocol):
    """What streams of Hugging Face and loaders of torchdata offer."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any) -> None: ...


DataIterator = WithState | WithStateDict

_WAYS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))  # (where is it, go there)


def check(data: DataIterator | None) -> None:
    """Raise `UsageError` at the beginning rather than at the first save, where there is no position to save."""
    if data is not None:
        _way(data)


def positions(data: DataIterator) -> list[Any]:
    """Every host's position, as JSON. A collective."""
    return [json.loads(each) for each in agreement.from_all(json.dumps(own_position(data)))]


def own_position(data: DataIterator) -> dict[str, Any]:
    """This host's, as JSON that `go_to` takes."""
    take = _way(data)[0]
    state = getattr(data, take)()
    if isinstance(state, bytes):
        return {"base64": base64.b64encode(state).decode()}
    if not _comes_back(state):
        raise UsageError(
            f"The position of {type(data).__name__} cannot be saved: {take}() returns what is neither bytes nor JSON"
            " that comes back as it is (text, numbers, lists, and dicts whose keys are text)."
        )
    return {"json": state}


def go_to(data: DataIterator, position: Mapping[str, Any]) -> None:
    """Draw from there on what was drawn after `own_position` was asked."""
    state = base64.b64decode(position["base64"]) if "base64" in position else position["json"]
    getattr(data, _way(data)[1])(state)


def set_position(data: DataIterator, stored: list[Any], host: int, hosts: int) -> None:
    """Go on where this host was. On another number of hosts: where the leader was.

    Raises:
        UsageError: the iterator does not take the leader's position on another number of hosts.
    """
    try:
        go_to(data, stored[host] if len(stored) == hosts else stored[0])
    except (ValueError, KeyError, TypeError) as exc:
        if len(stored) == hosts:
            raise
        why, were = str(exc).partition("\n")[0].rstrip("."), f"{len(stored)} host{'s' * (len(stored) > 1)}"
        raise UsageError(
            f"The position in data=… was saved by {were}, and what is given now does not take the leader's on"
            f" {hosts}: {why}. Give data whose order is the same on any number of hosts, such as"
            " prefect_tpu.batches, or go on with as many hosts as before."
        ) from exc


def _comes_back(state: Any) -> bool:
    """Whether JSON gives it back as it is: of a tuple it makes a list, of a key that is a number text."""
    try:
        return _is_json(state)
    except RecursionError:  # it holds itself
        return False


def _is_json(state: Any) -> bool:
    if isinstance(state, dict):
        return all(isinstance(name, str) and _is_json(value) for name, value in state.items())
    if isinstance(state, list):
        return all(map(_is_json, state))
    return state is None or isinstance(state, str | int | float)


def _way(data: DataIterator) -> tuple[str, str]:
    for way in _WAYS:
        if all(callable(getattr(data, name, None)) for name in way):
            return way
    raise UsageError(
        f"A {type(data).__name__} has no position that could be saved: give data=… what has get_state() and set_state()"
        ", such as prefect_tpu.batches or iter() of Grain's data, or state_dict() and load_state_dict()."
    )
