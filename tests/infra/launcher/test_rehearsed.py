"""Drills of the launcher: what a stockout refuses and until when, and whom the end of a driver strikes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.drills import parse_drill
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import rehearsed
from prefect_tpu.infra.launcher.written import Reader
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.offers import offers_of
from prefect_tpu.infra.rehearsal import Note, read_note, take_note
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.storage import LocalStorage

A, B = Offer(accelerator="v6e-16"), Offer(accelerator="v6e-8")

OBEY = """
import sys
from pathlib import Path
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.rehearsed import obey
from prefect_tpu.infra.launcher.written import Reader
from prefect_tpu.infra.storage import LocalStorage
storage = LocalStorage(sys.argv[1])
written = Reader(storage).look()
obey(storage, SliceJob.from_json(Path(sys.argv[1], 'job.json').read_bytes()), set(written.notes), written.obeyed)
print('lives')
"""


@pytest.fixture
def job_of(make_job: Callable[..., SliceJob]) -> Callable[..., SliceJob]:
    return lambda *drills: make_job(drills=drills, accelerators=("v6e-16", "v6e-8"))


def refused(storage: LocalStorage, job: SliceJob) -> Mapping[Offer, str]:
    """By what a driver reads."""
    written = Reader(storage).look()
    return rehearsed.refused(job, written.notes, written.obeyed)


def strike(storage: LocalStorage, drill: str, attempt: int = 1, index: int = 0) -> None:
    """As a host does it."""
    number = parse_drill(drill).number
    note = Note(drill=parse_drill(drill), attempt=attempt, accelerator=A.accelerator, number=number)
    assert take_note(storage, index, note)


@pytest.mark.parametrize(
    ("drill", "attempt", "is_struck"),
    [
        ("stockout@start", 1, True),
        ("stockout@start", 4, True),
        ("stockout@attempt=2", 1, False),
        ("stockout@attempt=2", 2, True),
        ("stockout@step=3", 1, False),
        ("kill@attempt=1", 1, False),
    ],
)
def test_a_stockout_takes_the_offer_that_its_attempt_would_take(
    storage: LocalStorage, job_of: Callable[..., SliceJob], drill: str, attempt: int, is_struck: bool
) -> None:
    job = job_of(drill)
    reason = f"drill {parse_drill(drill)}: no capacity." if is_struck else None
    assert rehearsed.strike_stockout(storage, job, attempt, A) == reason
    assert not rehearsed.strike_stockout(storage, job, attempt, B), "it strikes once"
    assert refused(storage, job) == ({A: reason} if is_struck else {})


def test_a_stockout_takes_the_offer_itself_not_all_of_its_accelerator(
    storage: LocalStorage, make_job: Callable[..., SliceJob]
) -> None:
    zones = ("us-east5-a", "us-east5-b")
    pods = PodSettings(image="python", cluster="training", zones=zones)
    job = make_job(drills=("stockout@start",), accelerators=("v6e-16",), backend="jobset", pods=pods)
    first, second = offers_of(job)
    reason = rehearsed.strike_stockout(storage, job, 1, first)
    assert refused(storage, job) == {first: reason}
    assert (first.zone, second.zone) == zones and not rehearsed.strike_stockout(storage, job, 1, second)


def test_two_stockouts_take_one_offer_each(storage: LocalStorage, job_of: Callable[..., SliceJob]) -> None:
    job = job_of("stockout@start", "stockout@attempt=1")
    assert rehearsed.strike_stockout(storage, job, 1, A)
    assert rehearsed.strike_stockout(storage, job, 1, B)
    assert set(refused(storage, job)) == {A, B}


def test_a_slice_that_a_host_has_lost_is_refused_until_the_round_ends(
    storage: LocalStorage, job_of: Callable[..., SliceJob]
) -> None:
    job = job_of("kill@step=1", "stockout@step=3", "stockout@start")
    assert refused(storage, job) == {}
    strike(storage, "kill@step=1")
    strike(storage, "stockout@step=3", index=1)
    assert refused(storage, job) == {A: "drill stockout@step=3,host=0: no capacity."}
    for _ in range(2):  # may be repeated
        rehearsed.end_stockouts(storage, job)
        assert refused(storage, job) == {}
    assert rehearsed.strike_stockout(storage, job, 9, B), "what has not struck may strike in a later round"
    assert set(refused(storage, job)) == {B}


def obey(storage: LocalStorage, job: SliceJob) -> tuple[int, str]:
    """In a process of its own: (how it ended, what it said)"""
    storage.put(layout.JOB, job.to_json())
    ended = subprocess.run([sys.executable, "-P", "-c", OBEY, storage.url], capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stdout


def test_a_driver_is_killed_once(storage: LocalStorage, job_of: Callable[..., SliceJob]) -> None:
    drill = "orchestrator-kill@step=3"
    job = job_of(drill)
    assert obey(storage, job) == (0, "lives\n"), "it has not struck"
    strike(storage, drill)
    assert obey(storage, job) == (-signal.SIGKILL, "")
    assert read_note(storage, 0) is not None
    assert obey(storage, job) == (0, "lives\n"), "whoever comes after it goes on"


def test_other_drills_kill_no_driver(storage: LocalStorage, job_of: Callable[..., SliceJob]) -> None:
    strike(storage, "kill@step=3")
    assert obey(storage, job_of("kill@step=3")) == (0, "lives\n")
