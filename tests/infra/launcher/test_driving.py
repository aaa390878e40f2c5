"""Who may drive a job when another process does, and what of it is left when somebody must go."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from prefect_tpu.infra.backends.local_slices import LocalSlices, SliceLock
from prefect_tpu.infra.errors import Conflict, FailureKind, PlatformError
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import driving
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.places import data_folder
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.storage import LocalStorage

pytestmark = pytest.mark.slices  # it waits for real time to pass

MakeJob = Callable[..., SliceJob]
OLD_END = JobResult(
    job="digits",
    state="failed",
    attempts=(),
    output="/out/digits",
    value=None,
    failure=failure(FailureKind.NO_CAPACITY, "full"),
)
NEW_END = replace(OLD_END, failure=failure(FailureKind.NO_QUOTA, "none"))


@pytest.fixture
def other(storage: LocalStorage) -> Lease:
    """Another driver's lease."""
    lease = Lease(storage, time.monotonic)
    assert lease.take() is None
    return lease


def test_who_waits_for_another_driver_may_go_at_once(storage: LocalStorage, make_job: MakeJob, other: Lease) -> None:
    def interrupt(news: News) -> None:
        assert "waiting for it" in (news.text or "")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), driving(make_job(), storage.url, interrupt):
        raise AssertionError("the other one drives")
    assert other.take() is None, "its lease is untouched"


@pytest.mark.parametrize("before", [None, OLD_END])
def test_an_end_that_came_meanwhile_is_the_one_to_report(
    storage: LocalStorage, make_job: MakeJob, other: Lease, before: JobResult | None
) -> None:
    def end(news: News) -> None:
        history.begin_round(storage, make_job())
        history.write_result(storage, NEW_END)
        other.give_up()

    if before is not None:
        history.write_result(storage, before)
    with driving(make_job(), storage.url, end) as driven:
        assert driven.next_attempt() is None
        assert driven.result == replace(NEW_END, output=storage.url)


def test_who_waits_may_want_a_stop_and_whoever_drives_obeys(
    storage: LocalStorage, make_job: MakeJob, other: Lease, wait_until: Callable[..., None]
) -> None:
    asked: list[str] = []

    def wants_it() -> str:
        asked.append("once")
        return "enough"

    def obey() -> None:
        wait_until(lambda: history.is_stop_asked(storage), "the wish")
        history.write_result(storage, NEW_END)

    with ThreadPoolExecutor(1) as beside:
        beside.submit(obey)
        with driving(make_job(), storage.url, asks_to_stop=wants_it) as driven:
            assert driven.result == replace(NEW_END, output=storage.url)
    assert len(asked) == 1, "what is asked may be a server"


def test_an_old_end_is_not_taken_for_a_new_one(storage: LocalStorage, make_job: MakeJob, other: Lease) -> None:
    """The other driver went before it began a round of its own."""
    history.write_result(storage, OLD_END)
    with driving(make_job(), storage.url, lambda news: other.give_up()) as driven:
        assert driven.result is None


def test_who_does_not_want_it_to_go_on_gets_its_end_and_obeys_a_stop(storage: LocalStorage, make_job: MakeJob) -> None:
    history.enter(storage, make_job())
    history.ask_to_stop(storage, "enough")
    with driving(make_job(), storage.url, goes_on=False) as driven:
        assert driven.next_attempt() is None
    ended = history.read_result(storage)
    assert ended is not None and ended.state == "stopped"
    with driving(make_job(), storage.url, goes_on=False) as driven:
        assert driven.next_attempt() is None
        assert driven.result == ended


def test_a_witness_hears_whoever_else_listens(storage: LocalStorage, make_job: MakeJob) -> None:
    history.enter(storage, make_job())
    history.ask_to_stop(storage, "enough")
    witnessed: list[News] = []
    heard: list[News] = []
    with driving(make_job(), storage.url, goes_on=False, witness=witnessed.append) as driven:
        driven.listen = heard.append
        assert driven.next_attempt() is None
    assert witnessed == heard and [news.text for news in heard] == ["stopped"]


def test_a_round_that_another_process_began_with_other_settings_stays_its_own(
    storage: LocalStorage, make_job: MakeJob, other: Lease
) -> None:
    """It was killed meanwhile: what it wrote down is no end, so the job goes on as it said."""

    def begin(news: News) -> None:
        history.begin_round(storage, make_job(grace=9.0))
        other.give_up()

    history.write_result(storage, OLD_END)
    with pytest.raises(Conflict, match="grace"), driving(make_job(), storage.url, begin):
        raise AssertionError("it goes on with other settings")
    assert history.read_job(storage) == make_job(grace=9.0)


def test_a_lease_is_given_up_whatever_else_fails(storage: LocalStorage, make_job: MakeJob) -> None:
    with pytest.raises(PlatformError), driving(make_job(), storage.url):
        storage.put("attempts/1/plan.json", b"not a plan")
        history.ask_to_stop(storage, "enough")
    assert storage.get("lease") is None


@pytest.mark.slices  # it lasts as long as a driver takes to look at its lease
@pytest.mark.timeout(60)
def test_a_driver_that_stood_still_gives_way(
    storage: LocalStorage, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process took the lapsed lease over; the first one stops driving and leaves that lease alone."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    taken = LocalSlices(data_folder({"XDG_DATA_HOME": str(tmp_path)}) / "slices", 1).take("someone-else")
    assert isinstance(taken, SliceLock)
    other = Lease(storage, time.monotonic)
    with (
        pytest.raises(PlatformError, match="is driven by process .* now"),
        driving(make_job(), storage.url, lambda news: other.renew()) as driven,
    ):
        driven.next_attempt()
        driven.provision()
    assert other.successor() is None and storage.get("lease") is not None
