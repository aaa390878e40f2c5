"""Functions without JAX that say what they were given and what they see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sibling

import prefect_tpu as tpu


def describe(name: str, times: int = 1, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Its own parameters, its host, and what a module beside it says."""
    return {"host": tpu.info().host, "name": name, "times": times, "options": options, "sibling": sibling.WORD}


def read() -> dict[str, Any]:
    """Every staged file by its name, with its text; a folder as its files."""
    return {name: _text(path) for name, path in tpu.info().data.items()}


def fail(host: int, text: str) -> None:
    """Raise on one host."""
    if tpu.info().host == host:
        raise ValueError(text)


def _text(path: Path) -> Any:
    if path.is_file():
        return path.read_text()
    return {str(file.relative_to(path)): file.read_text() for file in sorted(path.rglob("*")) if file.is_file()}
