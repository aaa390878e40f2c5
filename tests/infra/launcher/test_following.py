"""How long an attempt has been without a slice is known also to who comes later."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from scripted import Scripted

from prefect_tpu.infra.launcher.following import follow
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import HostObservation, HostPhase, Observation, Waiting

PENDING = (HostObservation(host=0, phase=HostPhase.PENDING),)
WAITS = Observation(attempt=3, hosts=PENDING, waiting=Waiting(reason="all is taken"))
BEGINS = Observation(attempt=3, hosts=PENDING)


def test_a_wait_counts_from_when_the_attempt_was_sent(make_plan: Callable[..., HostPlan]) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            backend = Scripted({3: [WAITS]})
            following = await follow(backend, backend.attach(make_plan()), lambda seen: None, tasks, age=500.0)
            waited = following.live(make_plan()).waiting_for
            assert waited is not None and waited >= 500.0
            following.note(BEGINS)
            assert following.live(make_plan()).waiting_for is None
            following.note(WAITS)
            waited = following.live(make_plan()).waiting_for
            assert waited is not None and waited < 500.0, "it had begun since"
            following.let_alone()

    anyio.run(run)
