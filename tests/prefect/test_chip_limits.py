"""What becomes of a training's chips when the limit changes, the lease is lost, or the server is away."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from limited_chips import LIMITS, Limit, limited
from pool_in_process import Slices, ended, until
from prefect.client.orchestration import PrefectClient
from prefect_server import IMPATIENT, PREFECT, Server, running, wait_for

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.permits import Chips, Permit, Standing, read_permit
from prefect_tpu.infra.state import Waiting
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.tasks.chip_limits import ABSENT_SECONDS, DENIED_SECONDS, ChipLimits

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]

QUICK_SECONDS = 0.2
FOUR = Chips(kind="v6e", count=4)


@dataclass
class Training:
    """A job of four chips that runs until it is let go, and what is said of it."""

    storage: LocalStorage
    slices: Slices = field(default_factory=Slices)
    said: list[str] = field(default_factory=list)

    def hear(self, news: News) -> None:
        self.said.extend([news.text] if news.text else [])

    async def until_said(self, words: str) -> None:
        await until(lambda: any(words in text for text in self.said), words)

    @property
    def lease(self) -> str | None:
        found = read_permit(self.storage)
        return None if found is None else found.lease

    async def finish(self) -> None:
        self.slices.show(ended(1))
        result = await until(lambda: history.read_result(self.storage), "the end of the job")
        assert (result.state, len(result.attempts)) == ("succeeded", 1)
        await until(lambda: self.lease is None, "that the chips are given back")


@asynccontextmanager
async def training(folder: Path, url: str) -> AsyncIterator[Training]:
    """While it is driven."""
    one = Training(storage=LocalStorage(folder / "digits"))
    program = Program(kind="module", target="m:f")
    job = SliceJob(name="digits", program=program, accelerators=("v6e-4",))
    history.enter(one.storage, job)
    one.storage.put(layout.record(1, 0), HostRecord(attempt=1, host=0, exit_code=0).to_json())
    limits = ChipLimits(lambda: PrefectClient(url), renew_seconds=QUICK_SECONDS)

    async def drive(driver: JobDriver) -> None:
        while await driver.next_attempt() is not None:
            await driver.provision()
            await driver.launch()
            await driver.release()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive, JobDriver(job, one.storage, one.slices, one.hear, tasks=tasks, permits=limits))
        yield one
        tasks.cancel_scope.cancel()


def url_of(server: Server) -> str:
    return str(server.environment["PREFECT_API_URL"])


@asynccontextmanager
async def counted_training(server: Server, folder: Path, chips: int) -> AsyncIterator[tuple[Limit, Training, str]]:
    """One that has its chips of a limit of so many, and the lease by which it has them."""
    with limited(server, "v6e", chips) as limit:
        async with training(folder, url_of(server)) as one:
            first = await until(lambda: one.lease, "a permit")
            assert limit.taken == 4
            yield limit, one, first


def test_a_lease_that_has_lapsed_is_taken_again(server: Server, tmp_path: Path) -> None:
    async def deed() -> None:
        async with counted_training(server, tmp_path, 8) as (limit, one, first):
            limit.revoke(first)
            await until(lambda: one.lease not in (first, None), "another lease")
            assert limit.taken == 4
            await one.finish()
            assert limit.taken == 0

    anyio.run(deed)


def test_a_limit_may_be_lowered_while_a_training_has_its_chips(server: Server, tmp_path: Path) -> None:
    async def deed() -> None:
        async with counted_training(server, tmp_path, 4) as (limit, one, first):
            limit.change(limit=2)
            limit.revoke(first)
            await one.until_said("are not counted as its own: concurrency limit 'chips-v6e' is 2 in all")
            limit.change(limit=6)
            await until(lambda: one.lease not in (first, None), "another lease")
            await one.finish()
            assert limit.taken == 0

    anyio.run(deed)


@pytest.mark.parametrize("how", [Limit.delete, partial(Limit.change, active=False)], ids=["deleted", "switched off"])
def test_a_limit_may_go_while_a_training_has_its_chips(
    server: Server, tmp_path: Path, how: Callable[..., None]
) -> None:
    async def deed() -> None:
        async with counted_training(server, tmp_path, 4) as (limit, one, first):
            how(limit)
            limit.revoke(first)
            await until(lambda: one.lease is None, "that nobody counts any more")
            await one.finish()

    anyio.run(deed)


def test_what_is_given_back_while_a_limit_is_switched_off_is_set_right_by_hand(server: Server, tmp_path: Path) -> None:
    """The server takes nothing from such a limit: docs/how-to/chips.md says what to do."""

    async def deed() -> None:
        async with counted_training(server, tmp_path, 4) as (limit, one, _):
            limit.change(active=False)
            await one.finish()
            limit.change(active=True)
            assert limit.taken == 4
            limit.change(active_slots=0)
            assert limit.taken == 0

    anyio.run(deed)


def test_a_limit_that_is_switched_off_counts_nothing(server: Server) -> None:
    with limited(server, "v6e", 1) as limit:
        limit.change(active=False)
        limits = ChipLimits(lambda: PrefectClient(url_of(server)))
        assert anyio.run(limits.take, FOUR) is None


def test_what_is_free_is_told_and_the_answer_is_remembered_for_a_moment(server: Server) -> None:
    now = [0.0]
    limits = ChipLimits(lambda: PrefectClient(url_of(server)), lambda: now[0])

    async def deed() -> None:
        with limited(server, "v6e", 6) as limit:
            first = await limits.take(FOUR)
            assert isinstance(first, Permit) and await limits.renew(first) is Standing.KEPT
            second = await limits.take(FOUR)
            assert isinstance(second, Waiting) and second.is_dry
            assert second.reason == "concurrency limit 'chips-v6e' has 2 of its 6 chips free, and 4 are needed"
            limit.change(limit=8)
            assert await limits.take(FOUR) == second
            now[0] += DENIED_SECONDS
            third = await limits.take(FOUR)
            assert isinstance(third, Permit)
            for permit in (first, third):
                await limits.give_back(permit)
                assert await limits.renew(permit) is Standing.LAPSED
                await limits.give_back(permit)
            assert limit.taken == 0

    anyio.run(deed)


def test_that_there_is_no_limit_is_remembered_for_a_while(server: Server) -> None:
    now = [0.0]
    limits = ChipLimits(lambda: PrefectClient(url_of(server)), lambda: now[0])

    async def deed() -> None:
        assert await limits.take(FOUR) is None
        with limited(server, "v6e", 2):
            assert await limits.take(FOUR) is None
            now[0] += ABSENT_SECONDS
            assert isinstance(await limits.take(FOUR), Refused)

    anyio.run(deed)


@contextmanager
def own_server(folder: Path, port: int) -> Iterator[None]:
    """One that comes back with what it knew, as leases on its disk let it."""
    environment = {
        **os.environ,
        **IMPATIENT,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_PROFILES_PATH": str(folder / "profiles.toml"),
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    }
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, environment, folder, "server"):
        wait_for(lambda: _answers(port), "the server")
        yield


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.long
def test_a_server_may_be_away_for_a_while(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"

    async def ask(method: str, path: str, **body: Any) -> Any:
        async with PrefectClient(url) as client:
            return (await client._client.request(method, path, json=body or None)).json()

    async def deed() -> None:
        with own_server(tmp_path, port):
            await ask("POST", f"{LIMITS}/", name="chips-v6e", limit=4)
        async with training(tmp_path, url) as one:
            await one.until_said("the Prefect server does not say whether concurrency limit 'chips-v6e' has room")
            assert history.find_plan(one.storage, 1) is None
            with own_server(tmp_path, port):
                first = await until(lambda: one.lease, "a permit")
                await until(lambda: history.find_plan(one.storage, 1), "the attempt")
            assert one.lease == first
            with own_server(tmp_path, port):
                await one.finish()
                assert (await ask("GET", f"{LIMITS}/chips-v6e"))["active_slots"] == 0

    anyio.run(deed)
