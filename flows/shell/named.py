"""What was given as name=value or name=path, again and again, on a command line?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from prefect_tpu.infra.errors import UsageError

V = TypeVar("V")


def named_values(option: str, given: Sequence[str]) -> dict[str, object]:
    """What was given as `name=value`. A value that reads as JSON is one, anything else is text."""
    return unique(option, _named(option, given))


def _named(option: str, given: Sequence[str]) -> Iterator[tuple[str, object]]:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{option} {text!r} is not name=value, such as {option} steps=100.")
        yield name, _value(value)


def _value(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def named_places(option: str, given: Sequence[str]) -> dict[str, str]:
    """What was given as `name=path`. A path without a name gives its own: `digits` of `data/digits.csv.gz`."""
    return unique(option, _places(option, given))


def _places(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, equals, path = text.partition("=")
        if equals and name.isidentifier():
            yield name, path
            continue
        name = re.sub(r"\W", "_", Path(text).resolve().name.partition(".")[0])
        if not text or not name.isidentifier():
            raise UsageError(
                f"{option} {text!r} gives no name for the program: write name=path, such as digits={text}."
            )
        yield name, text


def unique(option: str, pairs: Iterator[tuple[str, V]]) -> dict[str, V]:
    """The pairs. Raises `UsageError` where one name comes twice."""
    found: dict[str, V] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} names {name!r} twice: leave one of them out, or name them apart.")
        found[name] = value
    return found
