"""How does an attempt end, once it is known why? Its verdict is written and told, its hosts end, then its outcome is.

May be cut short anywhere and repeated: what was written first stays.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.to_thread import run_sync

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.launcher import history, summing_up
from prefect_tpu.infra.launcher.following import Following
from prefect_tpu.infra.launcher.handed_back import handed_back
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.launcher.written import Written
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What an attempt of this job is ended with."""

    job: SliceJob
    storage: Storage
    ledger: Ledger
    tell: Announcer

    async def of(
        self, following: Following, plan: HostPlan, failure: Failure | None, written: Written
    ) -> AttemptSummary:
        """Its summary, once it is written down.

        Args:
            following: its hosts, which are ended.
            plan: what was sent.
            failure: why it ends; another verdict that was written before counts more.
            written: the job's folder as it was seen last.
        """
        cause, summary = await self._judged(following, plan, failure)
        summary = summing_up.with_cause(summary, cause)
        self._tell_early(summary, written)
        await following.end()
        summary = await run_sync(summing_up.ended_now, self.storage, plan, summary)
        await run_sync(history.write_outcome, self.storage, summary)
        facts = {"outcome": summary.outcome, "last_step": summary.last_step, **_of_a_slow_host(summary)}
        await run_sync(partial(self.ledger.write, summary.number, Event.ENDED, **facts))
        return summary

    async def _judged(
        self, following: Following, plan: HostPlan, failure: Failure | None
    ) -> tuple[Failure | None, AttemptSummary]:
        """Why it ends, by the first verdict, and what it came to; a bucket is asked for both at once."""
        found: list[AttemptSummary] = []

        async def sum_up() -> None:
            found.append(await run_sync(summing_up.of_attempt, self.storage, plan, following.seen, failure))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sum_up)
            cause = await run_sync(history.judge, self.storage, plan.attempt, failure)
        return cause, found[0]

    def _tell_early(self, summary: AttemptSummary, written: Written) -> None:
        """That another attempt is due is news for whoever moves a run, though the hosts of this one are still ended."""
        as_ended = replace(written, outcomes={**written.outcomes, summary.number: summary})
        if (due := handed_back(self.job, as_ended, time.time())) is not None:
            self.tell.fails(due)


def _of_a_slow_host(summary: AttemptSummary) -> dict[str, str]:
    return {} if summary.slow_host is None else {"slow_host": summary.slow_host}
