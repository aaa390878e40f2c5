"""How an attempt ends: all that a bucket is asked for at once, and who asked for a stop meanwhile is heard."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from anyio.to_thread import run_sync
from counting import Counting
from scripted import Scripted

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.ending import Ending
from prefect_tpu.infra.launcher.following import follow
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Announcer, News
from prefect_tpu.infra.launcher.written import Reader
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import HostObservation, HostPhase, Observation
from prefect_tpu.infra.storage import LocalStorage, Storage

GONE = Observation(attempt=3, hosts=(HostObservation(host=0, phase=HostPhase.ENDED),))
LOST = failure(FailureKind.PREEMPTED, "The platform took it.")
AT_ONCE = (f"put_if_absent {layout.verdict(3)}", f"children {layout.LEDGER}", "children ")
PATIENCE = 20.0


class Together(Counting):
    """Answers the first of each of these questions once all of them are asked."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._all = threading.Barrier(len(AT_ONCE))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._await(f"put_if_absent {name}")
        return super().put_if_absent(name, data)

    def children(self, folder: str) -> list[str]:
        self._await(f"children {folder}")
        return super().children(folder)

    def _await(self, question: str) -> None:
        if question in AT_ONCE and not self.asked[question]:
            self._all.wait(PATIENCE)


@pytest.fixture
def begun(storage: LocalStorage, make_job: Callable[..., SliceJob], make_plan: Callable[..., HostPlan]) -> LocalStorage:
    history.enter(storage, make_job())
    storage.put(layout.plan(3), make_plan(attempt=3, output=storage.url).to_json())
    Ledger(storage).write(3, Event.SUBMITTED)
    return storage


async def ended(storage: Storage, make_job: Callable[..., SliceJob]) -> tuple[AttemptSummary, list[News]]:
    heard: list[News] = []
    plan, reader = history.read_plan(storage, 3), Reader(storage)
    ending = Ending(
        job=make_job(), storage=storage, ledger=Ledger(storage), tell=Announcer("digits", heard.append)
    )  # fmt: skip
    async with anyio.create_task_group() as tasks:
        backend = Scripted({3: [GONE]})
        following = await follow(backend, backend.attach(plan), lambda seen: None, tasks)
        summary = await ending.of(following, plan, LOST, partial(run_sync, reader.look))
    return summary, heard


def test_nothing_that_is_asked_waits_for_another_answer(begun: LocalStorage, make_job: Callable[..., SliceJob]) -> None:
    summary, heard = anyio.run(ended, Together(begun), make_job)
    assert (summary.number, summary.failure) == (3, LOST) and history.read_outcome(begun, 3) == summary
    assert [news.due and news.due.attempt for news in heard] == [3]


def test_whoever_asked_for_a_stop_meanwhile_is_heard(begun: LocalStorage, make_job: Callable[..., SliceJob]) -> None:
    history.ask_to_stop(begun, "somebody wants it")
    assert anyio.run(ended, begun, make_job)[1] == [], "no other attempt is due"


def test_the_first_verdict_counts(begun: LocalStorage, make_job: Callable[..., SliceJob]) -> None:
    first = failure(FailureKind.HOST_LOST, "Another driver saw it so.")
    history.judge(begun, 3, first)
    summary, heard = anyio.run(ended, begun, make_job)
    assert (summary.failure, summary.outcome) == (first, "host_lost")
    assert [news.due and news.due.failure for news in heard] == [first]
