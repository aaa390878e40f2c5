"""Has another run asked a person about this candidate, and what was answered? By what Prefect keeps of its pause.

A run may be killed while it asks, or just after it was answered: what it was told is not lost with it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.input import RunInput, keyset_from_base_key, read_flow_run_input
from prefect.runtime import flow_run
from pydantic import Field

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.models.records import Candidate
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.tasks.cancellation import asks_to_stop, own_runs

LOOK_SECONDS = 5


class Approval(RunInput):
    """What is asked before a slice is paid for."""

    approved: bool = Field(True, description="Train it.")
    reason: str = Field("", description="Why, or why not.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What came of the questions of other runs. answer: None where there is none to wait for."""

    answer: Approval | None = None
    is_cancelled: bool = False  # this run, while it waited


def key_of(registry: Registry, candidate: Candidate) -> str:
    """Of the pause that asks about a candidate."""
    return f"{registry.model}-{candidate.number}"


def ask_as(registry: Registry, candidate: Candidate) -> None:
    """Write down that this run asks about a candidate, just before it does."""
    name = f"{layout.model_asked(candidate.number)}/{flow_run.id}"
    registry.storage.put_if_absent(name, contract.write_json({"at": time.time()}))


def answered_elsewhere(registry: Registry, candidate: Candidate) -> Elsewhere:
    """The answer that a run has got which has asked before. A question that is still open is waited for."""
    wishes, is_told = asks_to_stop(*own_runs()), False
    while True:
        runs = [UUID(name) for name in registry.storage.children(layout.model_asked(candidate.number))]
        for run in runs:
            if (answer := _answer(run, key_of(registry, candidate))) is not None:
                return Elsewhere(answer=answer)
        if (asking := next(filter(_is_open, runs), None)) is None:
            return Elsewhere()
        if wishes() is not None:
            return Elsewhere(is_cancelled=True)
        if not is_told:
            get_run_logger().info("Flow run %s asks somebody already; its answer is waited for.", asking)
            is_told = True
        time.sleep(LOOK_SECONDS)


def _answer(run: UUID, key: str) -> Approval | None:
    said: Any = read_flow_run_input(keyset_from_base_key(f"paused-{key}")["response"], flow_run_id=run)
    return None if said is None else Approval(**said)


def _is_open(run: UUID) -> bool:
    """Whether somebody may still answer; nobody can a run that is gone from the server, or has waited long enough."""
    with get_client(sync_client=True) as client:
        try:
            state = client.read_flow_run(run).state
        except ObjectNotFound:
            return False
    if state is None or not state.is_paused():
        return False
    until = state.state_details.pause_timeout
    return until is None or until > datetime.now(UTC)
