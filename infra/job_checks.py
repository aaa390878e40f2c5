"""Can a job be made of these values? Each check raises `UsageError` with what to change."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.value_words import in_words

MOST_PARAMS_BYTES = 256 * 1024  # a Prefect server takes 512 KiB for all parameters of a run
LONGEST_SHOWN = 60  # characters of a value in a message
OWN_VARIABLES = frozenset(  # of a host, and of what runs on it
    (
        *(Env.PLAN, Env.HOST, Env.SCRATCH, Env.RUNNER, Env.STARTED, Env.ATTEMPT, Env.SLICE, Env.TERMINATION_LOG),
        *(Env.REGION, Env.PARENT, Env.REGION_KEY),
    )
)


def check_json(target: str, params: Any) -> None:
    """Keyword arguments that JSON gives back as they are."""
    if not isinstance(params, dict):
        raise UsageError(f"The parameters of {target!r} are {shown(params)}: give them by name, as {{'steps': 100}}.")
    try:
        wrong = _not_json("", params)
        size = 0 if wrong else len(json.dumps(params))
    except RecursionError:
        raise UsageError(
            f"The parameters of {target!r} are nested too deep, or hold themselves: flatten them."
        ) from None
    if wrong:
        raise UsageError(f"The parameters of {target!r} must be JSON: {wrong}. Give text, numbers, lists and objects.")
    if size > MOST_PARAMS_BYTES:
        raise UsageError(
            f"The parameters of {target!r} are {size // 1024} KiB of JSON, at most {MOST_PARAMS_BYTES // 1024} may be:"
            " put them into a file and stage it with `data`."
        )


def _not_json(place: str, value: Any) -> str | None:
    """The first thing that JSON does not give back as it was, with its place; None where there is none."""
    if isinstance(value, dict):
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            return f"{place or 'they'} has the key {wrong!r}, which is no text" if place else f"{wrong!r} is no name"
        return next(filter(None, (_not_json(f"{place}[{k!r}]" if place else k, v) for k, v in value.items())), None)
    if isinstance(value, list | tuple):
        return next(filter(None, (_not_json(f"{place}[{i}]", item) for i, item in enumerate(value))), None)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} is {value}, which JSON does not have"
    if value is None or isinstance(value, str | int | float):
        return None
    return f"{place} is of type {type(value).__name__}"


def check_environment(env: Any) -> None:
    """What a system can hand to a process, and is not ours; found here, not by each host in turn.

    No message shows a value: it may be secret.
    """
    if not isinstance(env, dict):
        raise UsageError(f"env is {shown(env)}: give variables by name, as {{'NAME': 'text'}}.")
    for name, value in env.items():
        if not isinstance(name, str):
            raise UsageError(f"env has the name {shown(name)}: names are text.")
        if not isinstance(value, str):
            raise UsageError(f"The value of {name!r} in env is of type {type(value).__name__}: give it as text.")
        if not name:
            raise UsageError("env has a variable without a name: give it one, or leave it out.")
        if "=" in name or "\0" in name:
            raise UsageError(f"env has {name!r}, which is no environment variable: use names without '='.")
        if "\0" in value:
            raise UsageError(f"The value of {name!r} in env has a NUL character, which no system takes: leave it out.")
        if name in OWN_VARIABLES:
            raise UsageError(f"env has {name!r}, which prefect-tpu itself sets on each host: leave it out.")


def check_positive(name: str, value: Any) -> None:
    """A time."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise UsageError(f"{name} is {shown(value)}: give a number of seconds above 0.")


def check_count(name: str, value: Any) -> None:
    """How often something may happen."""
    if not _is_number(value) or value != value // 1 or value < 0:
        raise UsageError(f"{name} is {shown(value)}: give a whole number, 0 or more.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A value in a message."""
    return cut(in_words(value))


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean 'steps'?`; empty where nothing that is known is like it."""
    near = get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


def cut(text: str) -> str:
    """All of it, or its beginning."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
