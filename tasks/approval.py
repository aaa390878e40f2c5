"""May this candidate be trained? Asked of a person, by a pause of the run with a form."""

from __future__ import annotations

import time

from prefect import get_run_logger, pause_flow_run
from prefect.exceptions import FlowPauseTimeout
from prefect.input import RunInput
from pydantic import Field

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.models.records import Candidate
from prefect_tpu.infra.models.registry import Registry

LOOK_SECONDS = 5


class Approval(RunInput):
    """What is asked before a slice is paid for."""

    approved: bool = Field(True, description="Train it.")
    reason: str = Field("", description="Why, or why not.")


def approval(registry: Registry, candidate: Candidate, what: str, seconds: float) -> Approval:
    """What somebody said, once: a run that goes on with this candidate does not ask again.

    Raises `UsageError` where nobody answers for so many seconds.
    """
    name = layout.model_approval(candidate.number)
    if (said := _read(registry, name)) is not None:
        return said
    get_run_logger().info("Waiting for somebody to approve: %s", what)
    form = Approval.with_initial_data(description=f"{what}\n\nIt is begun because {candidate.reason}.")
    try:
        said = pause_flow_run(
            wait_for_input=form, timeout=int(seconds), poll_interval=LOOK_SECONDS,
            key=f"{registry.model}-{candidate.number}",
        )  # fmt: skip
    except FlowPauseTimeout as exc:
        raise UsageError(
            f"Nobody has approved candidate {candidate.number} of model {registry.model!r} within {seconds / 3600:.1f}"
            " h. It stays as it is: the next run asks again."
        ) from exc
    told = {"approved": said.approved, "reason": said.reason, "at": time.time()}
    registry.storage.put_if_absent(name, contract.write_json(told))
    return said


def _read(registry: Registry, name: str) -> Approval | None:
    raw = registry.storage.get(name)
    if raw is None:
        return None
    said = contract.read_json(raw, registry.storage.where(name))
    return Approval(approved=bool(said["approved"]), reason=str(said["reason"]))
