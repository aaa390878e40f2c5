"""How does an attempt end, once it is known why? Its verdict is written and told, its hosts end, then its outcome is.

May be cut short anywhere and repeated: what was written first stays.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.launcher import checkpoints, history, summing_up
from prefect_tpu.infra.launcher.following import Following
from prefect_tpu.infra.launcher.handed_back import handed_back
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.launcher.written import Written
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import Storage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What an attempt of this job is ended with."""

    job: SliceJob
    storage: Storage
    ledger: Ledger
    tell: Announcer

    async def of(
        self,
        following: Following,
        plan: HostPlan,
        failure: Failure | None,
        look: Callable[[], Awaitable[Written]],
    ) -> AttemptSummary:
        """Its summary, once it is written down.

        Args:
            following: its hosts, which are ended.
            plan: what was sent.
            failure: why it ends; another verdict that was written before counts more.
            look: at the job's folder as it is now.
        """
        summary, written = await self._judged(following, plan, failure, look)
        self._tell_early(summary, written)
        await following.end()
        summary = await run_sync(summing_up.ended_now, self.storage, plan, summary)
        await run_sync(history.write_outcome, self.storage, summary)
        facts = {"outcome": summary.outcome, "last_step": summary.last_step, **_of_a_slow_host(summary)}
        await run_sync(partial(self.ledger.write, summary.number, Event.ENDED, **facts))
        return summary

    async def _judged(
        self, following: Following, plan: HostPlan, failure: Failure | None, look: Callable[[], Awaitable[Written]]
    ) -> tuple[AttemptSummary, Written]:
        """What it came to, by the first verdict, and the folder; a bucket is asked for all of it at once."""
        try:
            async with anyio.create_task_group() as tasks:
                submitted = _begin(tasks, partial(run_sync, self.ledger.submitted, plan.attempt))
                saved = _begin(tasks, partial(run_sync, checkpoints.furthest, self.storage, plan))
                written = _begin(tasks, look)
                cause = await run_sync(history.judge, self.storage, plan.attempt, failure)
        except ExceptionGroup as exc:  # where a bucket is away, each question says the same
            raise exc.exceptions[0] from None
        return summing_up.of_attempt(plan, following.seen, cause, submitted[0], saved[0]), written[0]

    def _tell_early(self, summary: AttemptSummary, written: Written) -> None:
        """That another attempt is due is news for whoever moves a run, though the hosts of this one are still ended."""
        as_ended = replace(written, outcomes={**written.outcomes, summary.number: summary})
        if (due := handed_back(self.job, as_ended, time.time())) is not None:
            self.tell.fails(due)


def _begin(tasks: TaskGroup, question: Callable[[], Awaitable[T]]) -> list[T]:
    """Where its answer is once all tasks are done."""
    answers: list[T] = []

    async def ask() -> None:
        answers.append(await question())

    tasks.start_soon(ask)
    return answers


def _of_a_slow_host(summary: AttemptSummary) -> dict[str, str]:
    return {} if summary.slow_host is None else {"slow_host": summary.slow_host}
