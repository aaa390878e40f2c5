"""One deed at a time on each job, with its lease; what could not be given up is given up by the next one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher.claims import Claims
from prefect_tpu.infra.launcher.lease import RENEW_SECONDS, Lease
from prefect_tpu.infra.storage import LocalStorage


def within(deed: Callable[[Claims], Awaitable[None]]) -> None:
    async def run() -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                await deed(Claims(tasks, time.monotonic))

    anyio.run(run)


def nobody(folder: str) -> bool:
    return False


def test_deeds_on_one_job_take_turns_and_leave_no_lease(storage: LocalStorage) -> None:
    done: list[str] = []

    async def deed(claims: Claims) -> None:
        async def one(name: str) -> None:
            async with claims.held(storage.url, nobody) as is_ours:
                assert is_ours and storage.get(layout.LEASE) is not None
                done.append(f"{name} begins")
                await anyio.sleep(0)
                done.append(f"{name} ends")

        async with anyio.create_task_group() as all_of_them:
            for name in ("one", "two", "three"):
                all_of_them.start_soon(one, name)

    within(deed)
    assert done == [f"{name} {what}" for name in ("one", "two", "three") for what in ("begins", "ends")]
    assert storage.get(layout.LEASE) is None


def test_an_error_of_a_deed_is_told_as_it_is_and_the_lease_goes_all_the_same(storage: LocalStorage) -> None:
    async def deed(claims: Claims) -> None:
        with pytest.raises(PlatformError, match=r"^away$"):
            async with claims.held(storage.url, nobody):
                raise PlatformError("away")

    within(deed)
    assert storage.get(layout.LEASE) is None


def test_a_lease_that_somebody_else_has_stays_theirs(storage: LocalStorage) -> None:
    other = Lease(storage, lambda: 0.0)
    assert other.take() is None

    async def deed(claims: Claims) -> None:
        async with claims.held(storage.url, nobody) as is_ours:
            assert not is_ours

    within(deed)
    assert other.successor() is None and storage.get(layout.LEASE) is not None


def test_one_that_cannot_be_given_up_is_given_up_by_the_next_deed(storage: LocalStorage) -> None:
    """A lease that points to a heartbeat would keep everybody out for as long as this process lives."""
    lease, path = Lease(storage, time.monotonic, "a-heartbeat"), storage.path(layout.LEASE)

    async def deed(claims: Claims) -> None:
        assert lease.take() is None
        kept = path.read_bytes()
        path.unlink()
        path.mkdir()  # what a storage that does not answer is like
        async with claims.deed(storage.url):
            await claims.give_up(storage.url, lease)
        path.rmdir()
        Path(path).write_bytes(kept)
        async with claims.held(storage.url, nobody) as is_ours:
            assert is_ours

    within(deed)
    assert storage.get(layout.LEASE) is None


@pytest.mark.slices  # it lasts as long as it takes until a lease is renewed
def test_a_deed_that_takes_long_keeps_its_lease(storage: LocalStorage) -> None:
    async def deed(claims: Claims) -> None:
        async with claims.held(storage.url, nobody):
            before = storage.get(layout.LEASE)
            await anyio.sleep(RENEW_SECONDS + 1.0)
            assert storage.get(layout.LEASE) not in (None, before)

    within(deed)
    assert storage.get(layout.LEASE) is None
