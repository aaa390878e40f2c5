"""How is it said in a run's state what became of its slice? One wording, by which we know our own words again."""

from __future__ import annotations

import re

from prefect_tpu.infra.errors import Failure, FailureKind

AGAIN = "Submitted again:"  # how the message begins of a run that was given back to Prefect
# A run of a pool is retried, and has no name that somebody could change.
_ADVICE = {
    FailureKind.PROGRAM_ERROR: "Correct the command, or the flow's code, and retry the run.",
    FailureKind.DEADLINE: "Give it a longer run_timeout and retry it: what its tasks have kept is not computed again.",
    FailureKind.STOPPED: "Retry the run to go on.",
    FailureKind.REFUSED: "Nothing of the flow has run there: mend that, then retry the run.",
}
_CRASHED = re.compile(rf"({'|'.join(FailureKind)})( on host \d+)?: ")


def crashed(cause: Failure) -> str:
    """What a run whose slice was lost crashed for: what happened, and what to do."""
    return f"{str(cause).rstrip('.')}. {_ADVICE.get(cause.kind, cause.advice)}".strip()


def of_flow(message: str) -> Failure:
    """Why a run has no result whose flow said so itself."""
    kind = FailureKind.PROGRAM_ERROR
    return Failure(kind=kind, retryable=False, message=message, advice=_ADVICE[kind])


def is_of_slice(message: str) -> bool:
    """Whether a run crashed by `crashed`, for whatever cause."""
    return _CRASHED.match(message) is not None


def again(submission: int) -> str:
    """Why a run is given back: the number of the submission of which nothing came."""
    return f"{AGAIN} nothing came of submission {submission}."
