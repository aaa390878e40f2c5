"""What does a command line ask for? From the words of `run` and `render` to a request."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prefect_tpu.flows.saved import placed
from prefect_tpu.flows.shell.durations import seconds, seconds_or_never
from prefect_tpu.flows.shell.named import named_places, named_values, unique
from prefect_tpu.flows.shell.options import JobOptions
from prefect_tpu.flows.shell.pods import pods_of
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.request import Request, made_up_name

_DURATIONS = ("checkpoint_every", "grace", "provision_timeout", "join_timeout")
_OR_NEVER = ("stall_timeout", "deadline")
_AS_GIVEN = ("max_preemptions", "max_failures", "dialect", "slices", "start_from", "mesh", "profile")


def request_of(options: JobOptions) -> Request:
    """The request. Raises `UsageError` for words that mean nothing."""
    where = placed(options.backend, pods_of(options), options.output)
    return Request(
        name=options.name or made_up_name(),
        program=options.target,
        accelerators=tuple(_accelerator(name, options.spot) for name in options.accelerator or ("cpu",)),
        output=where.output,
        params=named_values("--param", options.param or ()),
        arguments=tuple(options.arguments or ()),
        data=named_places("--data", options.data or ()),
        settings={**_settings(options), **where.settings},
        compile=options.compile or "",
    )


def _settings(options: JobOptions) -> dict[str, Any]:
    """Only what was said: a job has its own defaults."""
    settings: dict[str, Any] = {}
    for name in (*_DURATIONS, *_OR_NEVER):
        if (text := getattr(options, name)) is not None:
            read = seconds_or_never if name in _OR_NEVER else seconds
            settings[name] = read(text, f"--{name.replace('_', '-')}")
    settings |= {name: value for name in _AS_GIVEN if (value := getattr(options, name)) is not None}
    if options.drill:
        settings["drills"] = tuple(options.drill)
    if options.env:
        settings["env"] = unique("--env", _environment(options.env, os.environ))
    return settings


def _accelerator(name: str, spot: bool) -> str:
    if not spot or name.endswith(":spot"):
        return name
    if ":" in name.removeprefix("tpu:").removeprefix("gpu:"):
        raise UsageError(f"--spot and {name!r} contradict each other: leave one of them out.")
    return f"{name}:spot"


def _environment(given: Sequence[str], own: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals and name not in own:
            raise UsageError(f"--env {name!r} has no value and is not set in this shell: write {name}=VALUE.")
        yield name, value if equals else own[name]
