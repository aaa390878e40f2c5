"""May this candidate be trained? Asked of a person, by a pause of the run with a form."""

from __future__ import annotations

import time

from prefect import get_run_logger, pause_flow_run
from prefect.exceptions import FlowPauseTimeout

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.models.records import Candidate
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.tasks.questions import LOOK_SECONDS, Approval, answered_elsewhere, ask_as, key_of


def approval(registry: Registry, candidate: Candidate, what: str, seconds: float) -> Approval | None:
    """What somebody said, once: nobody is asked again by a run that goes on with this candidate, nor while another
    run asks. None where this run is cancelled meanwhile.

    Raises `UsageError` where nobody answers for so many seconds.
    """
    if (said := _read(registry, candidate)) is not None:
        return said
    found = answered_elsewhere(registry, candidate)
    if found.is_cancelled:
        return None
    said = found.answer or _read(registry, candidate) or _ask(registry, candidate, what, seconds)
    told = {"approved": said.approved, "reason": said.reason, "at": time.time()}
    registry.storage.put_if_absent(layout.model_approval(candidate.number), contract.write_json(told))
    return _read(registry, candidate)  # of two that asked at the same moment the first answer counts


def _ask(registry: Registry, candidate: Candidate, what: str, seconds: float) -> Approval:
    get_run_logger().info("Waiting for somebody to approve: %s", what)
    form = Approval.with_initial_data(description=f"{what}\n\nIt is begun because {candidate.reason}.")
    ask_as(registry, candidate)
    try:
        return pause_flow_run(
            wait_for_input=form, timeout=max(1, int(seconds)), poll_interval=LOOK_SECONDS,
            key=key_of(registry, candidate),
        )  # fmt: skip
    except FlowPauseTimeout as exc:
        raise UsageError(
            f"Nobody has approved candidate {candidate.number} of model {registry.model!r} within {seconds / 3600:.1f}"
            " h. It stays as it is: the next run asks again."
        ) from exc


def _read(registry: Registry, candidate: Candidate) -> Approval | None:
    name = layout.model_approval(candidate.number)
    raw, where = registry.storage.get(name), registry.storage.where(name)
    if raw is None:
        return None
    with contract.reading(where):
        said = contract.read_json(raw, where)
        return Approval(approved=bool(said["approved"]), reason=str(said["reason"]))
