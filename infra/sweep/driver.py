"""Drives one sweep: looks at its trials, decides, acts, begins again.

Whoever carries a trial's job out is asked for it by a `Call` and says when it has ended. Everything else is written in
the sweep's folder, so that any process may take over at any time. All calls from one thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher.status import pause_between_looks
from prefect_tpu.infra.policy.ladder import climbed
from prefect_tpu.infra.policy.sweeping import Begun, Turn, Wanted, decide
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.asked import Asked
from prefect_tpu.infra.sweep.chips import Chips
from prefect_tpu.infra.sweep.study import Study, Trial, TrialState
from prefect_tpu.infra.sweep.trial_job import GIVEN_UP, TrialJob, has_brought
from prefect_tpu.infra.value_words import in_words

LOOKS_APART = 5  # of a bucket, which counts what it is asked: how many pauses lie between two looks at all trials
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A job that is to be driven to its end.

    trial: whose it is.
    job: its name.
    folder: where it lies.
    parameters: of the flow `train`; None where nothing is to go on: the job was asked to stop, and its driver is gone.
    """

    trial: int
    job: str
    folder: str
    parameters: dict[str, Any] | None


class SweepDriver:
    """One process's hands on one sweep."""

    def __init__(self, output: Storage, asked: Asked, tell: Tell, wishes: frozenset[str] = frozenset()) -> None:
        """Raises `UsageError` where Optuna is missing.

        Args:
            output: where the jobs are.
            asked: the sweep.
            tell: hears what happens, in a person's words.
            wishes: reasons to stop a job by which the whole sweep is meant.
        """
        self.asked, self._output, self._tell, self._wishes = asked, output, tell, wishes
        self.storage = output.inside(layout.sweep(asked.name))
        self.study, self.chips = Study(self.storage, asked), Chips(self.storage, driver=uuid.uuid4().hex)
        self._jobs: dict[int, TrialJob] = {}
        self._driven: set[int] = set()
        self._given_up = set(layout.numbered(self.storage.children(layout.PRUNED), ".json"))
        self._next_look = 0.0
        self._leaves: str | None = None
        self._broken: Exception | None = None

    def turn(self) -> list[Call]:
        """Do what is due now. The jobs that somebody is to drive from now on."""
        if self._leaves is None:
            self._compare()
        found = self._decide()
        for number in found.give_back:
            self.chips.give_back(number)
        for number in found.stop:
            self.job(number).ask_to_stop(self._leaves or GIVEN_UP)
        calls = [call for number in found.go_on if (call := self._go_on(number)) is not None]
        for _ in range(found.begin):
            if (call := self._begin()) is None:
                break
            calls.append(call)
        return calls

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do. Raises what made the sweep leave, where that was an error."""
        is_over = self._decide().is_over
        if is_over and self._broken is not None:
            raise self._broken
        return is_over

    @property
    def leaves(self) -> str | None:
        """Why the sweep stops before its end; None where it does not."""
        return self._leaves

    def leave(self, reason: str) -> None:
        """Begin nothing more, and let the jobs that are driven save and stop. The same sweep run again goes on."""
        if self._leaves is None:
            self._leaves = reason
            self._tell(f"The sweep stops: {reason}.")

    def interrupt(self, reason: str) -> None:
        """Ask the jobs that are driven to stop; nothing is decided or told any more."""
        for number in self._driven:
            self.job(number).ask_to_stop(reason)

    def ended(self, number: int, error: Exception | None) -> None:
        """Nobody drives the trial's job any more.

        error: why; None where it has its end, and so it has after `JobFailed`, if it ever began.
        """
        self._driven.discard(number)
        end = self.job(number).end()
        if end is None or not has_brought(error, end):
            self._break(number, error)
            return
        self._conclude(number)
        self.chips.give_back(number)

    def _break(self, number: int, error: Exception | None) -> None:
        """The call came to nothing. Where the sweep leaves anyway, its job stays open for whoever runs it again."""
        if error is None and self._leaves is not None:
            return
        name = self.asked.job_of(number)
        lost = PlatformError(f"Job {name!r} has no end, and nobody drives it any more. Run the sweep again to go on.")
        self._broken = self._broken or error or lost
        self.leave(f"trial {number} could not be carried out")

    def _decide(self) -> Turn:
        begun, held = self.study.trials(), self.chips.held()
        following = range(len(begun), min(self.asked.count, len(begun) + self.asked.budget))  # no more can begin now
        return decide(
            self.asked.budget,
            [self._as_begun(trial, held) for trial in begun],
            [self._as_wanted(number, held) for number in following],
            is_leaving=self._leaves is not None,
        )

    def _as_begun(self, trial: Trial, held: dict[int, int]) -> Begun:
        return Begun(
            number=trial.number,
            chips=held.get(trial.number) or self.asked.chips_of(trial.number),
            holds=trial.number in held,
            is_driven=trial.number in self._driven,
            is_told=trial.state is not TrialState.OPEN,
            is_given_up=trial.number in self._given_up,
        )

    def _as_wanted(self, number: int, held: dict[int, int]) -> Wanted:
        return Wanted(
            chips=held.get(number) or self.asked.chips_of(number),
            priority=self.asked.priority_of(number),
            holds=number in held,
        )

    def _begin(self) -> Call | None:
        """Chips first, then the trial, then its job: whoever is killed in between finds each as it was left."""
        if not self._take(len(self.study.trials())):
            return None
        trial = self.study.ask()
        self._tell(f"Trial {trial.number} begins: {_in_words(trial.params)}.")
        return self._call(trial)

    def _go_on(self, number: int) -> Call | None:
        """A trial that was begun and that nobody drives: its end may be there already."""
        end, is_given_up = self.job(number).end(), number in self._given_up
        is_deleted = is_given_up and not self.job(number).is_there  # by somebody: nothing is left to stop
        if is_deleted or (end is not None and (end.state != JobState.STOPPED or is_given_up)):
            self._conclude(number)
            self.chips.give_back(number)
            return None
        if not self._take(number):
            return None
        self._tell(f"Trial {number} goes on.")
        return self._call(self.study.trials()[number])

    def _take(self, number: int) -> bool:
        return self.chips.take(number, self.asked.chips_of(number), self.asked.budget)

    def _call(self, trial: Trial) -> Call:
        number, job = trial.number, self.asked.job_of(trial.number)
        self._driven.add(number)
        folder = self.job(number).storage.url
        if number in self._given_up:
            self.job(number).ask_to_stop(GIVEN_UP)  # before anybody drives it, who would begin another attempt
            return Call(trial=number, job=job, folder=folder, parameters=None)
        self.job(number).take_code(self.asked.program, self.storage)
        parameters = self.asked.call_of(number, trial.params, self._output.url)
        return Call(trial=number, job=job, folder=folder, parameters=parameters)

    def _compare(self) -> None:
        """Tell how far the trials are, and give up those that are not worth going on with."""
        if self.asked.pruner == "none" or time.monotonic() < self._next_look:
            return
        for trial in self.study.trials():
            if trial.number in self._driven and trial.number not in self._given_up:
                worse = self._report(trial)
                if worse is not None:
                    self._give_up(trial.number, f"{self.asked.metric} was {worse[1]:.6g} after {worse[0]} steps")
        self._next_look = time.monotonic() + pause_between_looks(self.storage, 0.0) * LOOKS_APART

    def _report(self, trial: Trial) -> tuple[int, float] | None:
        points = climbed(self.job(trial.number).curve(), above=trial.last_step)
        return self.study.report(trial.number, points)

    def _give_up(self, number: int, why: str) -> None:
        """Written down before the job is asked to stop: a job that is found stopped would go on."""
        name = layout.pruned(number)
        self.storage.put_if_absent(name, contract.write_json({"reason": why}))
        self._given_up.add(number)
        self._tell(f"Trial {number} is given up: {why}.")

    def _conclude(self, number: int) -> None:
        """Tell how a trial ended, by its job's end. One that was stopped by the sweep's own end stays open."""
        job = self.job(number)
        end, reason = job.end(), job.stop_reason()
        if end is None:  # given up, and deleted
            self.study.tell(number, TrialState.PRUNED)
            return
        if end.state == JobState.STOPPED and reason in self._wishes:
            self.leave(str(reason))
        if end.state == JobState.SUCCEEDED:
            self._told(number, job.value(end))
        elif end.state == JobState.FAILED:
            self._tell(f"Trial {number} failed: {end.failure}")
            self.study.tell(number, TrialState.FAILED)
        elif number in self._given_up or self._leaves is None:
            if number not in self._given_up:
                self._give_up(number, f"its job was stopped ({reason})")
            self.study.tell(number, TrialState.PRUNED)

    def _told(self, number: int, value: float | None) -> None:
        if value is None:
            said = "its program returned, or reported last, nothing by that name that is a finite number"
            self._tell(f"Trial {number} has no {self.asked.metric!r}: {said}.")
            self.study.tell(number, TrialState.FAILED)
        else:
            self._tell(f"Trial {number} has {self.asked.metric} {value:.6g}.")
            self._report(self.study.trials()[number])  # others are compared with all of it
            self.study.tell(number, TrialState.COMPLETE, value)

    def job(self, number: int) -> TrialJob:
        """The job of a trial."""
        if number not in self._jobs:
            storage = self._output.inside(self.asked.job_of(number))
            self._jobs[number] = TrialJob(storage, self.asked.metric)
        return self._jobs[number]


def _in_words(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={in_words(value)}" for name, value in params.items()) or "nothing to choose"
