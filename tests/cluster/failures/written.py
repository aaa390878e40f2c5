"""What is kept of a run: a fixture per failure, for tests without a cluster, and seconds for the page."""

from __future__ import annotations

import json
from dataclasses import asdict

from play import Delay, Outcome
from recorded import FIXTURES


def keep(outcome: Outcome) -> None:
    """Write one case's fixture."""
    case, recording = outcome.case, outcome.recording
    failure = (recording.failure() if recording else None) or outcome.failure  # with the ids that the recording has
    seen = {
        "title": case.title,
        "kind": failure.kind.value,
        "retryable": failure.retryable,
        "message": failure.message,
        "attempts": outcome.attempts,
        "state": outcome.state,
        "is_quick": case.is_quick,
        "ours": _seconds(outcome.ours),
        "jobset": _seconds(outcome.jobset),
        "jobset_bound": case.plain_seconds if case.change_plain else None,
    }
    FIXTURES.mkdir(parents=True, exist_ok=True)
    content = (
        json.dumps({"seen": seen, "recording": asdict(recording) if recording else None}, indent=1, sort_keys=True)
        + "\n"
    )
    (FIXTURES / f"{case.name}.json").write_text(content)


def _seconds(delay: Delay | None) -> dict[str, float] | None:
    return None if delay is None else {key: round(value, 2) for key, value in asdict(delay).items()}
