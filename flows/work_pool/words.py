"""How is it said in a run's state what became of its slice? One wording, by which we know our own words again."""

from __future__ import annotations

import re

from prefect_tpu.infra.errors import Failure, FailureKind

AGAIN = "Submitted again:"  # how the message begins of a run that was given back to Prefect
_CRASHED = re.compile(rf"({'|'.join(FailureKind)})( on host \d+)?: ")


def crashed(cause: Failure) -> str:
    """What a run whose slice was lost crashed for: what happened, and what to do."""
    return f"{str(cause).rstrip('.')}. {cause.advice}".strip()


def is_of_slice(message: str) -> bool:
    """Whether a run crashed by `crashed`, for whatever cause."""
    return _CRASHED.match(message) is not None


def again(submission: int) -> str:
    """Why a run is given back: the number of the submission of which nothing came."""
    return f"{AGAIN} nothing came of submission {submission}."
