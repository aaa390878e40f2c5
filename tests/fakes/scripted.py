"""A backend whose slices do what a test has written down: what is seen of each attempt, one after the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import anyio

from prefect_tpu.infra.backends.base import Attempt, Handle, Held, LogLine, Place, Plan, Refused, Remnant
from prefect_tpu.infra.checks import Look
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.quota import Ruling
from prefect_tpu.infra.state import Observation, Offer, Waiting

CHANGES_SECONDS = 0.02


class Scripted:
    """`Backend` for one driver.

    script: attempt → what is seen of it; the last of it for ever.
    answers: zone → what comes of asking for a slice there, one answer after the other; then there is one. An exception
        is raised.
    asked: the zones of the offers that were asked for a slice.
    attempts: that were planned. chosen: what the slices that they were planned on avoid.
    told, forgotten: attempts whose hosts were told to leave, or ended.
    """

    look_seconds = 60.0  # no test lasts so long: what is asked beyond the first look is asked for a reason

    def __init__(
        self,
        script: Mapping[int, Sequence[Observation]],
        answers: Mapping[str, Sequence[Waiting | Refused | Exception]] | None = None,
    ) -> None:
        self._script = script
        self._answers = {zone: iter(said) for zone, said in (answers or {}).items()}
        self.asked: list[str | None] = []
        self.attempts: list[Attempt] = []
        self.chosen: list[tuple[str, ...]] = []
        self.told: list[int] = []
        self.forgotten: list[int] = []

    def default_output(self) -> str:
        return "gs://bucket/jobs"

    def check(self, job: SliceJob, output: str) -> None:
        """Every job may come."""

    def checks(self, output: str) -> Mapping[str, Look]:
        return {}

    async def remnants(
        self, output: str, jobs: Sequence[SliceJob], places: Sequence[Place] = ()
    ) -> tuple[Remnant, ...]:
        return ()

    async def limits(self, job: SliceJob, offer: Offer, output: str) -> tuple[Ruling, ...]:
        return ()

    async def provision(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        self.asked.append(offer.zone)
        answer = next(self._answers.get(offer.zone or "", iter(())), None)
        if isinstance(answer, Exception):
            raise answer
        return answer or self.imagine(attempt, offer)

    def imagine(self, attempt: Attempt, offer: Offer) -> Held:
        return Held(offer=offer, handle={"avoid": attempt.avoid})

    def plan(self, attempt: Attempt, held: Held) -> Plan:
        self.attempts.append(attempt)
        self.chosen.append(held.handle["avoid"])
        job = attempt.job
        hosts = HostPlan(
            job=job.name,
            attempt=attempt.number,
            accelerator=held.offer.accelerator,
            cluster=held.offer.cluster,
            zone=held.offer.zone,
            output=attempt.output,
            hosts=2,
            backend="jobset",
            scratch="/scratch",
            devices_per_host=4,
            platform="tpu",
            coordinator="leader:8476",
            addresses=("leader", "other"),
            program=job.program,
            checkpoint_every=job.checkpoint_every,
            grace=job.grace,
            orphan_after=None,
            join_timeout=job.join_timeout,
            python="python3",
        )
        return Plan(hosts=hosts)

    async def submit(self, plan: HostPlan, held: Held | None) -> Handle:
        return self.attach(plan)

    def attach(self, plan: HostPlan) -> Handle:
        return {"attempt": plan.attempt}

    async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        for seen in self._script[handle["attempt"]]:
            yield seen
            await anyio.sleep(CHANGES_SECONDS)
        await anyio.sleep_forever()

    async def logs(
        self, handle: Handle, hosts: tuple[int, ...] | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogLine, None]:
        for host in hosts or ():
            yield LogLine(host=host, text="")

    async def stop(self, handle: Handle) -> None:
        self.told.append(handle["attempt"])

    async def forget(self, handle: Handle) -> None:
        self.forgotten.append(handle["attempt"])

    async def release(self, held: Held) -> None:
        """Nothing is held."""

    async def tidy(self, job: SliceJob, plan: HostPlan) -> bool:
        return True

    async def withdraw(self, job: SliceJob, output: str) -> None:
        """Nothing is asked for that is not held."""
