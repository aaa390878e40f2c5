"""What does a host's program say of itself? Read from its scratch folder, by its runner and by the local backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract
from prefect_tpu.infra.contract import Event, Progress, Scratch

JOINED_WITHIN_BYTES = 65_536  # hosts meet before they report much


def read_progress(folder: Path) -> Progress:
    """The program's newest report; empty where it made none."""
    data = read_json(folder / Scratch.PROGRESS) or {}
    return Progress(
        step=data.get("step"),
        first_step=data.get("first_step"),
        saved_step=data.get("saved_step"),
        metrics=data.get("metrics") or {},
    )


def joined_after(folder: Path) -> float | None:
    """Seconds from the runner's start until all hosts had met; None where they have not."""
    try:
        with (folder / Scratch.EVENTS).open() as file:
            lines = file.readlines(JOINED_WITHIN_BYTES)
        return next((e["after"] for e in map(json.loads, lines) if e["event"] == Event.JOINED), None)
    except (OSError, ValueError, KeyError):
        return None


def read_json(path: Path) -> dict[str, Any] | None:
    """A record of ours; None where it is absent, damaged or newer than this version."""
    try:
        return contract.read_json(path.read_bytes(), path.name)
    except (OSError, contract.ContractError):
        return None
