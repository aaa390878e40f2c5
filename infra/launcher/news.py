"""What the launcher tells whoever listens: Prefect, a terminal, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.state import JobState, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing that happened.

    text: for people. observation: with news of the hosts. ended: with the end of an attempt.
    """

    job: str
    state: JobState
    attempt: int
    text: str | None = None
    observation: Observation | None = None
    ended: AttemptSummary | None = None


Listener = Callable[[News], None]


def nobody(news: News) -> None:
    """A listener that does not care."""
