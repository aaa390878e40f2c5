"""What the launcher tells whoever listens: Prefect, a terminal, the ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.launcher.wording import counted, end_in_words
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.capacity import CAPACITY
from prefect_tpu.infra.state import JobEvent, JobState, Observation, WaitFor, move


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing that happened.

    text: for people. observation: with news of the hosts. ended: with the end of an attempt.
    waits_for: what keeps the hosts from starting, where `text` tells of that.
    due: an attempt has failed and another one may follow; its hosts, or what they held, may still have to be ended.
    """

    job: str
    state: JobState
    attempt: int
    text: str | None = None
    observation: Observation | None = None
    ended: AttemptSummary | None = None
    waits_for: WaitFor | None = None
    due: HandedBack | None = None


Listener = Callable[[News], None]
REMEMBERED = 200  # texts, so that a reason is told once


def nobody(news: News) -> None:
    """A listener that does not care."""


class Announcer:
    """Where the job stands, and the voice that tells it. Says a thing once, not again until another was said.

    Why there was no slice is said where it is new; what follows from it is told without.
    """

    def __init__(self, job: str, listen: Listener) -> None:
        self.state = JobState.QUEUED
        self._job, self._listen = job, listen
        self._said: str | None = None
        self._heard: deque[str] = deque(maxlen=REMEMBERED)

    def move(self, event: JobEvent) -> None:
        self.state = move(self.state, event)

    def say(self, attempt: int, text: str, waits_for: WaitFor | None = None) -> None:
        if text != self._said:
            self._said = text
            self._tell(attempt, text=text, waits_for=waits_for)

    def waits(self, attempt: int, reason: str, seconds: float, what: WaitFor = WaitFor.SLICE) -> None:
        """What keeps the hosts from starting: on each change, and with the time that it has lasted each minute."""
        minutes = int(seconds // 60)
        self.say(attempt, f"waiting{f' for {minutes} min' if minutes else ''}: {reason}", what)

    def began(self, plan: HostPlan, offer: str, missed: Sequence[str] = ()) -> None:
        """An attempt was sent. `offer`: what of, and where; `missed`: which better ones gave no slice, and why."""
        hosts, devices = counted(plan.hosts, "host"), counted(plan.devices_per_host, "device")
        start = "from the beginning" if plan.restore is None else f"from step {plan.restore.step}"
        where = f"{offer}: {hosts} of {devices}, {start}"
        if not missed:
            self.say(plan.attempt, where)
        else:
            on = "beginning on" if plan.restore is None else "going on on"
            self.say(plan.attempt, f"{'; '.join(map(self._once, missed))}; {on} {where}")
        if plan.stand_in:
            self.say(plan.attempt, plan.stand_in)

    def saw(self, seen: Observation) -> None:
        if seen.has_joined and self.state is JobState.STARTING:
            self.move(JobEvent.JOINED)
            self.say(seen.attempt, "all hosts have met")
        self._tell(seen.attempt, observation=seen)

    def fails(self, due: HandedBack) -> None:
        """It is known how an attempt ends, before it has: ending what is left of it may take long."""
        self._listen(News(job=self._job, state=self.state, attempt=due.attempt, due=due))

    def ended(self, summary: AttemptSummary) -> None:
        cause = summary.failure
        if cause is not None and cause.kind in CAPACITY:
            cause = replace(cause, message=f"{self._once(cause.message.rstrip('.'))}.")
        self._tell(summary.number, text=end_in_words(cause), ended=summary)

    def _once(self, text: str) -> str:
        """`v6e-16 has no capacity now: the reason`, without the reason where that was told already."""
        what, _, reason = text.partition(": ")
        return what if reason and any(reason in heard for heard in self._heard) else text

    def _tell(
        self,
        attempt: int,
        *,
        text: str | None = None,
        observation: Observation | None = None,
        ended: AttemptSummary | None = None,
        waits_for: WaitFor | None = None,
    ) -> None:
        if text is not None:
            self._heard.append(text)
        self._listen(
            News(
                job=self._job,
                state=self.state,
                attempt=attempt,
                text=text,
                observation=observation,
                ended=ended,
                waits_for=waits_for,
            )
        )
