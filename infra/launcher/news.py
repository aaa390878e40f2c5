"""What the launcher tells whoever listens: Prefect, a terminal, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.wording import counted, end_in_words
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import JobEvent, JobState, Observation, move


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


class Announcer:
    """Where the job stands, and the voice that tells it. Says a thing once, not again until another was said."""

    def __init__(self, job: str, listen: Listener) -> None:
        self.state = JobState.QUEUED
        self._job, self._listen = job, listen
        self._said: str | None = None

    def move(self, event: JobEvent) -> None:
        self.state = move(self.state, event)

    def say(self, attempt: int, text: str) -> None:
        if text != self._said:
            self._said = text
            self._tell(attempt, text=text)

    def waits(self, attempt: int, reason: str, seconds: float) -> None:
        """What keeps the hosts from starting: on each change, and with the time that it has lasted each minute."""
        minutes = int(seconds // 60)
        self.say(attempt, f"waiting{f' for {minutes} min' if minutes else ''}: {reason}")

    def began(self, plan: HostPlan, offer: str, instead_of: str | None = None) -> None:
        """An attempt was sent. `offer`: what of, and where, in a person's words."""
        hosts, devices = counted(plan.hosts, "host"), counted(plan.devices_per_host, "device")
        start = "from the beginning" if plan.restore is None else f"from step {plan.restore.step}"
        where = f"{offer}: {hosts} of {devices}, {start}"
        if instead_of is None:
            self.say(plan.attempt, where)
        else:
            on = "beginning on" if plan.restore is None else "going on on"
            self.say(plan.attempt, f"{instead_of}; {on} {where}")
        if plan.stand_in:
            self.say(plan.attempt, plan.stand_in)

    def saw(self, seen: Observation) -> None:
        if seen.has_joined and self.state is JobState.STARTING:
            self.move(JobEvent.JOINED)
            self.say(seen.attempt, "all hosts have met")
        self._tell(seen.attempt, observation=seen)

    def ended(self, summary: AttemptSummary) -> None:
        self._tell(summary.number, text=end_in_words(summary.failure), ended=summary)

    def _tell(
        self,
        attempt: int,
        *,
        text: str | None = None,
        observation: Observation | None = None,
        ended: AttemptSummary | None = None,
    ) -> None:
        self._listen(
            News(job=self._job, state=self.state, attempt=attempt, text=text, observation=observation, ended=ended)
        )
