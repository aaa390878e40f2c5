"""What does a command line ask of pods? From the words of `run` and `render` to their settings by name."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from prefect_tpu.flows.shell.durations import seconds
from prefect_tpu.flows.shell.options import JobOptions
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.pods import PodSettings

_OPTIONS = ("image", "namespace", "queue", "service_account", "make_pools")  # those with an option of their own


def pods_of(options: JobOptions) -> dict[str, Any]:
    """Only what was said. Raises `UsageError` for words that mean nothing, or say one thing twice."""
    said: dict[str, Any] = {name: value for name in _OPTIONS if (value := getattr(options, name)) is not None}
    if options.cluster:
        said["cluster"], *others = options.cluster
        said |= {"fallback_clusters": tuple(others)} if others else {}
    if options.zone:
        said["zones"] = tuple(options.zone)
    for name, pairs in (("secrets", _secrets(options.secret or ())), ("volumes", _volumes(options.volume or ()))):
        for key, value in pairs:
            _put(said, name, key, value)
    for text in options.pod or ():
        _put_setting(said, text)
    return said


def _secrets(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What stands after the name may be the secret itself, by mistake: it is never shown."""
    for text in given:
        name, equals, place = text.partition("=")
        if not equals or "/" not in place:
            raise UsageError(f"--secret {name!r} is not NAME=SECRET/KEY: name a secret of the cluster, never give it.")
        yield name, place


def _volumes(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        path, equals, source = text.partition("=")
        if not equals:
            raise UsageError(f"--volume {text!r} is not PATH=SOURCE, such as --volume /data=gs://bucket/folder.")
        yield path, source


def _put_setting(said: dict[str, Any], text: str) -> None:
    """`memory=64Gi`, `pull_secrets=a,b`, `ttl=1h`, `labels.team=vision`; values are not shown: some may be secrets."""
    name, equals, value = text.partition("=")
    field, dot, key = name.partition(".")
    field = field.replace("-", "_")
    if not equals:
        raise UsageError(f"--pod {name!r} is not KEY=VALUE, such as --pod memory=64Gi or --pod labels.team=vision.")
    kind = _kinds().get(field, str)  # a wrong name is answered with the nearest one where settings are checked
    if kind is dict and not key:
        raise UsageError(f"--pod {name} names nothing in {field}: write --pod {field}.NAME=VALUE.")
    if kind is not dict and dot:
        raise UsageError(f"--pod {name}: {field} has no parts; write --pod {field}=VALUE.")
    if kind is dict:
        _put(said, field, key, value)
    elif field in said:
        raise UsageError(f"--pod {name} says {field} again: leave one of them out.")
    else:
        said[field] = _value(field, kind, value)


def _value(field: str, kind: type, text: str) -> Any:
    if kind is tuple:
        return tuple(text.split(","))
    if kind is bool:
        if text not in ("true", "false"):
            raise UsageError(f"--pod {field} takes true or false.")
        return text == "true"
    if kind is int:
        return 0 if text == "0" else round(seconds(text, f"--pod {field}"))
    return text


def _put(said: dict[str, Any], name: str, key: str, value: str) -> None:
    group = said.setdefault(name, {})
    if key in group:
        raise UsageError(f"{name} has {key!r} twice: leave one of them out.")
    group[key] = value


@cache
def _kinds() -> dict[str, type]:
    """What each setting is: a text, a tuple, a dictionary or a number."""
    hints = typing.get_type_hints(PodSettings)
    return {name: _kind(hint) for name, hint in hints.items()}


def _kind(hint: Any) -> type:
    """The type itself, of `str | None` and of `dict[str, str]` too; a group of settings is given as a dictionary."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    found: type = typing.get_origin(hint) or hint
    return dict if is_dataclass(found) else found
