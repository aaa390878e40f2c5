"""What only this machine promises: several slices side by side, and limits of its own."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Held, Refused
from prefect_tpu.infra.backends.local import LocalBackend
from prefect_tpu.infra.backends.local_limits import HOST_MEMORY_BYTES
from prefect_tpu.infra.contract import Env, StopReason
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.state import HostPhase, Offer, Waiting
from tests.contract.desk import FOREVER, HOST, records

pytestmark = [pytest.mark.slices, pytest.mark.anyio, pytest.mark.timeout(60)]

OFFER = Offer(accelerator="cpu-2x1")


async def test_two_jobs_run_side_by_side_on_ports_of_their_own(desk, machine):
    first = LocalBackend({**machine.environment, Env.SLICES: "2"})
    second = LocalBackend({**machine.environment, Env.SLICES: "2"})
    plans, helds = [], []
    for backend, name in ((first, "one"), (second, "two")):
        attempt = desk.attempt("true", name=name)
        held = await backend.provision(attempt, OFFER)
        assert isinstance(held, Held)
        helds.append((backend, held))
        plans.append(backend.plan(attempt, held).hosts)
    assert helds[0][1].handle != helds[1][1].handle
    assert plans[0].coordinator != plans[1].coordinator
    third = await LocalBackend({**machine.environment, Env.SLICES: "2"}).provision(desk.attempt("true"), OFFER)
    assert isinstance(third, Waiting) and "'one'" in third.reason and "'two'" in third.reason
    for backend, held in helds:
        await backend.release(held)


@pytest.mark.parametrize(("most", "is_refused"), [(None, True), ("17", False)])
async def test_more_hosts_than_a_machine_should_carry_only_when_allowed(desk, machine, most, is_refused):
    backend = LocalBackend({**machine.environment, **({Env.MAX_HOSTS: most} if most else {})})
    answer = await backend.provision(desk.attempt("true", accelerator="cpu-17x1"), Offer(accelerator="cpu-17x1"))
    if is_refused:
        assert isinstance(answer, Refused) and Env.MAX_HOSTS in answer.reason and "17" in answer.reason
    else:
        assert isinstance(answer, Held) or "memory" in answer.reason  # 17 hosts take what they take


async def test_memory_that_others_use_is_awaited_and_what_the_machine_lacks_is_not(desk, monkeypatch):
    needed = 2 * HOST_MEMORY_BYTES
    for total, available, answer, reason in [
        (needed - 1, needed - 1, Refused, "memory: 500 MiB needed, 499 MiB available"),
        (needed, needed - 1, Waiting, "free memory: 500 MiB needed, 499 MiB available"),
        (needed, needed, Held, ""),  # also: the slice was not kept while there was too little
    ]:
        monkeypatch.setattr(
            psutil, "virtual_memory", lambda t=total, a=available: SimpleNamespace(total=t, available=a)
        )
        got = await desk.backend.provision(desk.attempt("true"), OFFER)
        assert isinstance(got, answer) and getattr(got, "reason", "").startswith(reason)
    await desk.backend.release(got)


async def test_a_runner_that_broke_is_gone_with_its_last_words(desk):
    attempt = desk.attempt("true")
    held = await desk.provision(attempt)
    plan = desk.backend.plan(attempt, held).hosts
    desk.storage.put(layout.plan(1), b"no plan")
    handle = await desk.backend.submit(plan, held)
    seen = await desk.ended(handle)
    await desk.backend.forget(handle)
    await desk.backend.release(held)
    assert all("its runner process is gone; it said:" in host.reason for host in seen.hosts)
    assert all("plan.json is damaged" in host.reason for host in seen.hosts)


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_number_of_slices_that_is_none_is_refused(machine, value):
    with pytest.raises(UsageError, match=Env.SLICES):
        LocalBackend({**machine.environment, Env.SLICES: value})


async def test_several_slices_are_so_many_times_the_hosts(desk):
    plan, held, handle = await desk.begin("true", slices=2)
    assert (plan.slices, plan.hosts, plan.hosts_per_slice, len(plan.addresses)) == (2, 4, 2, 4)
    assert [host.record.exit_code for host in (await desk.ended(handle)).hosts] == [0] * 4
    await desk.backend.forget(handle)
    await desk.backend.release(held)
    too_many = desk.attempt("true", accelerator="cpu-8x1", slices=3)
    answer = await desk.backend.provision(too_many, Offer(accelerator="cpu-8x1"))
    assert isinstance(answer, Refused) and "24 hosts needed, 16 hosts available" in answer.reason


async def test_what_is_left_of_attempts_is_told_and_ended_by_any_process(desk):
    _, held, handle = await desk.begin("sleep 60", accelerator="cpu")
    await desk.seen(handle, lambda seen: all(host.phase is HostPhase.RUNNING for host in seen.hosts))
    other = desk.open()
    output = str(desk.storage.root.parent)
    (left,) = await other.remnants(output, ())
    assert (left.output, left.attempt, "process" in left.what) == (desk.storage.url, 1, True)
    assert 0.0 <= left.age < 60.0
    assert await other.remnants(f"{output}/elsewhere", ()) == ()
    await other.forget(left.handle)
    assert await other.remnants(output, ()) == ()
    await desk.backend.forget(handle)
    await desk.backend.release(held)


async def test_a_host_whose_runner_is_killed_ends_without_a_record(desk):
    runner = '{ read -r pid comm state parent rest; } < /proc/$$/stat; kill -9 "$parent"; sleep 60'
    _, _, handle = await desk.begin(f"if [ {HOST} = 1 ]; then {runner}; fi")
    seen = await desk.ended(handle)
    assert seen.hosts[0].record is not None and not seen.hosts[0].has_failed
    assert seen.hosts[1].record is None and seen.hosts[1].has_failed
    await desk.backend.forget(handle)


async def test_a_damaged_record_counts_as_none(desk):
    _, _, handle = await desk.begin("true", accelerator="cpu")
    await desk.ended(handle)
    whole = desk.storage.get(layout.record(1, 0))
    desk.storage.put(layout.record(1, 0), whole[: len(whole) // 2])
    (host,) = (await desk.ended(handle)).hosts
    assert host.record is None and host.has_failed and "damaged" in host.reason
    await desk.backend.forget(handle)


async def test_a_slice_is_waited_for_and_the_wait_says_for_whom(desk):
    first = desk.attempt("true", name="first-job")
    held = await desk.provision(first)
    assert await desk.backend.provision(first, held.offer) == held
    other = desk.open()
    waiting = await other.provision(desk.attempt("true", name="second"), Offer(accelerator="cpu-2x1"))
    assert isinstance(waiting, Waiting) and "first-job" in waiting.reason
    await desk.backend.release(held)
    await desk.backend.release(held)  # once more changes nothing
    got = await other.provision(desk.attempt("true", name="second"), Offer(accelerator="cpu-2x1"))
    assert isinstance(got, Held)
    await other.release(got)


async def test_a_slice_stays_taken_while_hosts_live(desk):
    _, held, handle = await desk.begin(FOREVER, accelerator="cpu")
    await desk.backend.release(held)
    other = desk.open()
    second = desk.attempt("true", name="second"), Offer(accelerator="cpu-2x1")
    assert isinstance(await other.provision(*second), Waiting)
    await desk.backend.forget(handle)
    got = await other.provision(*second)
    assert isinstance(got, Held)
    await other.release(got)


async def test_a_slice_that_is_imagined_is_not_taken(desk):
    attempt = desk.attempt("true")
    imagined = desk.backend.imagine(attempt, Offer(accelerator="cpu-2x1"))
    assert isinstance(imagined, Held) and desk.backend.plan(attempt, imagined).hosts.hosts == 2
    assert isinstance(desk.backend.imagine(attempt, Offer(accelerator="v6e-256")), Refused)
    held = await desk.provision(attempt)  # there is but one slice
    await desk.backend.release(held)


async def test_a_stop_is_heard_by_hosts_that_are_still_starting(desk):
    _, _, handle = await desk.begin(FOREVER)
    await desk.backend.stop(handle)
    found = records(await desk.ended(handle))
    assert {record.stop_reason for record in found} == {StopReason.NOTICE}
    await desk.backend.forget(handle)
