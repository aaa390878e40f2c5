"""Which events tell of models? One for each record of a model's history that a run has made: for automations."""

from __future__ import annotations

import logging
import uuid

from prefect.events import emit_event

from prefect_tpu.infra.models.records import Entry
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.tasks.belonging import related_here

PREFIX = "prefect-tpu.model."
_IDS = uuid.UUID("6f0d6a52-7a1f-5b0e-9d57-1f3a4c6b8e21")  # ours, and the same for ever: ids are made of it
log = logging.getLogger(__name__)


def tell(registry: Registry, entry: Entry) -> None:
    """Say what became of a candidate: `promoted`, `kept`, `declined`, `failed` or `abandoned`. Never raises.

    Whoever says the same again, in whichever process, is heard once.
    """
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
                "metrics": version.metrics if version is not None else {},
            },
            id=uuid.uuid5(_IDS, f"{registry.storage.url} {entry.number}"),
        )
    except Exception as exc:  # whatever is wrong with a server or its events: what was trained is worth more
        log.info("What became of a candidate of model %s could not be sent: %s", registry.model, exc)
