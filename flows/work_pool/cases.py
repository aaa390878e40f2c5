"""What does this process know of a run and its job between two looks? Little, and all of it can be found out again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, State

from prefect_tpu.flows.work_pool.facts import Driver, JobFacts, JobPhase
from prefect_tpu.flows.work_pool.job_reading import JobReader
from prefect_tpu.flows.work_pool.voice import Voice
from prefect_tpu.infra.launcher.fleet import Fleet

CALM_SECONDS = 60.0  # until a case is looked at again in which nothing seems to happen
REMEMBERED = 10_000  # cases that are over
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 2.0, 120.0  # after an error


@dataclass
class Case:
    """A run, and the folder of its job.

    run: as it was seen last; None where it is not there.
    since: when it was first seen in this very state, by this process's clock.
    due: when it is to be looked at again, if nothing happens before.
    is_busy: something is being done about it; is_missed: it changed meanwhile.
    errors: how often in a row nothing could be done about it; breaks: how often its drive broke.
    has_asked: the job was asked to stop.
    told: the newest attempt whose end was told in the run's log.
    voice: of the drive.
    named: what it is called as a pending run, as far as this process said it; named_at: when.
    """

    id: UUID
    folder: str
    run: FlowRun | None = None
    since: float = 0.0
    due: float = 0.0
    is_busy: bool = False
    is_missed: bool = False
    errors: int = 0
    breaks: int = 0
    has_asked: bool = False
    told: int = 0
    reader: JobReader | None = None
    voice: Voice | None = None
    named: str = ""
    named_at: float = -math.inf

    def saw(self, run: FlowRun | None, now: float) -> bool:
        """Take over what Prefect says of the run; whether that is another state than before."""
        is_new = _state(self.run) != _state(run)
        self.run = run
        if is_new:
            self.since, self.due, self.named = now, now, ""
        return is_new

    @property
    def has_its_job(self) -> bool:
        """Whether the run itself says where its job is; else that is a guess."""
        return self.run is not None and self.run.infrastructure_pid == self.folder

    def moved(self, state: State[Any], now: float) -> None:
        """This process has moved the run: nobody has to ask how it is."""
        if self.run is not None:
            news = {"state": state, "state_id": state.id, "state_type": state.type, "state_name": state.name}
            self.run, self.since = self.run.model_copy(update=news), now

    def rest(self, now: float, times: int) -> None:
        """Nothing could be done, so often in a row: look later, and not before."""
        self.due = now + min(LONGEST_REST_SECONDS, FIRST_REST_SECONDS * 2 ** min(times - 1, 10))

    def driven(self, fleet: Fleet) -> JobFacts | None:
        """The job, as far as is known without looking; None where this process does not drive it."""
        drive = fleet.drives.get(self.folder)
        if drive is None:
            return None
        driver = Driver.US if drive.is_driving else Driver.ANOTHER
        voice = self.voice if drive.is_driving else None
        return JobFacts(
            phase=JobPhase.OPEN,
            driver=driver,
            driven_for=drive.seconds,
            has_live=voice.has_begun if voice is not None else True,
            is_stop_asked=self.has_asked,
            due=voice.due if voice is not None else None,
        )


def _state(run: FlowRun | None) -> object:
    return None if run is None else run.state_id


@dataclass
class Cases:
    """All that are not over, by run; and what was seen of those that are, so that nobody looks at them again."""

    open: dict[UUID, Case] = field(default_factory=dict)
    over: dict[UUID, object] = field(default_factory=dict)

    def at(self, run: UUID, folder: str) -> Case:
        """The case of a run. Its job may have moved to another folder, by being asked for with other settings."""
        case = self.open.get(run)
        if case is None or case.folder != folder:
            case = self.open[run] = Case(id=run, folder=folder)
        return case

    def knows(self, run: UUID, state: UUID) -> bool:
        """Whether nobody has to ask about a run that is said to be in this state: it was seen so, or is no case."""
        case = self.open.get(run)
        return case is None or (case.run is not None and case.run.state_id == state)

    def folders(self) -> frozenset[str]:
        """Of the jobs that runs say are theirs."""
        found = (case.folder for case in self.open.values() if case.has_its_job)
        return frozenset(found)

    def folder_of(self, run: UUID) -> str:
        """Of its job, as far as is known."""
        case = self.open.get(run)
        return case.folder if case is not None else ""

    def close(self, case: Case) -> None:
        """Nothing is left to be done, unless the run changes."""
        if self.open.get(case.id) is case:
            del self.open[case.id]
        self.over[case.id] = _state(case.run)
        if len(self.over) > REMEMBERED:
            self.over.pop(next(iter(self.over)))

    def is_over(self, run: FlowRun) -> bool:
        """Whether it is as it was when its case was closed."""
        return self.over.get(run.id, self) == _state(run)
