"""Where slices come from. A name → the module that knows it, imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import cast

from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.loading import load

_KNOWN = {
    "local": "prefect_tpu.infra.backends.local:LocalBackend",
    "jobset": "prefect_tpu.infra.backends.jobset:JobSetBackend",
    "pathways": "prefect_tpu.infra.backends.pathways:PathwaysBackend",
}


def names() -> tuple[str, ...]:
    """Of all backends."""
    return tuple(_KNOWN)


def open_backend(name: str) -> Backend:
    """The backend of that name. Raises `UsageError` with the known names."""
    if sys.platform == "win32":
        raise UsageError("prefect-tpu does not run on Windows: use Linux, or WSL.")
    try:
        module, _, factory = _KNOWN[name].partition(":")
    except KeyError:
        raise UsageError(f"Backend {name!r} is not known: choose {_listed(_KNOWN)}.") from None
    return cast(Backend, getattr(load(module), factory)())


def _listed(known: Iterable[str]) -> str:
    *others, last = map(repr, known)
    return f"{', '.join(others)} or {last}"
