"""Which events tell of models? One for each record of a model's history that a run has made: for automations."""

from __future__ import annotations

import logging
import uuid

from prefect.events import emit_event

from prefect_tpu.infra import layout
from prefect_tpu.infra.models.records import Became, Entry, plain
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.tasks.belonging import related_here

PREFIX = "prefect-tpu.model."
_IDS = uuid.UUID("6f0d6a52-7a1f-5b0e-9d57-1f3a4c6b8e21")  # ours, and the same for ever: ids are made of it
log = logging.getLogger(__name__)


TOLD = frozenset({Became.PROMOTED, Became.KEPT, Became.DECLINED, Became.FAILED})


def tell(registry: Registry, entry: Entry) -> None:
    """Say what became of a candidate: `promoted`, `kept`, `declined` or `failed`. Never raises.

    Of two that say the same at once, in whichever processes, one is heard.
    """
    if entry.became not in TOLD:
        return
    version, name = entry.tried, f"{PREFIX}{registry.model}"
    try:
        emit_event(
            event=f"{PREFIX}{entry.became.value}",
            resource={"prefect.resource.id": name, "prefect.resource.name": registry.model},
            related=related_here(),
            payload={
                "model": registry.model,
                "candidate": entry.candidate,
                "champion": entry.champion,
                "reason": entry.reason,
                "checkpoint": version.checkpoint if version is not None else "",
                "metrics": plain(version.metrics) if version is not None else {},
            },
            id=id_of(registry, entry.number),
        )
        registry.storage.put_if_absent(layout.model_told(entry.number), b"")
    except Exception as exc:  # whatever is wrong with a server or its events: what was trained is worth more
        log.info("What became of a candidate of model %s could not be sent: %s", registry.model, exc)


def id_of(registry: Registry, number: int) -> uuid.UUID:
    """Of the event that tells of a record: the same whoever sends it."""
    return uuid.uuid5(_IDS, f"{registry.storage.url} {number}")


def tell_missed(registry: Registry) -> None:
    """Say what the newest record tells, where a run was killed between writing it and saying so."""
    numbers = registry.numbers()
    if numbers and registry.storage.get(layout.model_told(numbers[-1])) is None:
        tell(registry, registry.entry(numbers[-1]))
