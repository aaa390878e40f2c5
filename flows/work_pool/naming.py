"""When is a pending run called something new? On change, not too often, and only by whoever drives its job."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from uuid import UUID

import anyio
import httpx

from prefect_tpu.flows.work_pool.acting import Hands, is_pending
from prefect_tpu.flows.work_pool.cases import Case

log = logging.getLogger(__name__)
NAME_SECONDS = 3.0  # between two names of one run


class Naming:
    """Carries names to the server, beside everything else."""

    def __init__(self, cases: Mapping[UUID, Case]) -> None:
        self._cases = cases
        self._unnamed: set[UUID] = set()
        self._is_due = anyio.Event()

    def is_due(self, case: Case) -> None:
        """Its voice wants another name."""
        self._unnamed.add(case.id)
        self._is_due.set()

    async def keep_naming(self, hands: Hands) -> None:
        """For ever."""
        while True:
            await self._is_due.wait()
            self._is_due = anyio.Event()
            unnamed, self._unnamed = self._unnamed, set()
            cases = [self._cases[number] for number in unnamed if number in self._cases]
            early = {case.id for case in cases if time.monotonic() - case.named_at < NAME_SECONDS}
            for case in cases:
                if case.id not in early:
                    await self._name(hands, case)
            if early:
                await anyio.sleep(NAME_SECONDS / 3)
                self._unnamed |= early
                self._is_due.set()

    async def _name(self, hands: Hands, case: Case) -> None:
        wanted = case.voice.wanted if case.voice is not None else None
        if wanted is None or wanted.name == case.named or not (is_pending(case.run) and hands.has_turn(case)):
            return
        try:
            case.saw(await hands.runs.read(case.id), time.monotonic())
            if is_pending(case.run) and case.run is not None and case.run.state_name != wanted.name:
                case.named, case.named_at = wanted.name, time.monotonic()
                hands.has_moved(case, await hands.transitions.name(case.id, wanted.name, wanted.message))
        except httpx.HTTPError as exc:
            log.info("Flow run %s is not called %s yet: %s", case.id, wanted.name, exc)
            case.named = ""
            self.is_due(case)
