"""What every backend promises: plan, submit, observe, logs, stop, forget, and the slice itself."""

from __future__ import annotations

import json
from contextlib import aclosing

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ExitCode, KilledBy, StopReason
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import HostPhase, Observation
from tests.contract.desk import FOREVER, HOST, records

pytestmark = [pytest.mark.slices, pytest.mark.anyio, pytest.mark.timeout(120)]


# -- plan ------------------------------------------------------------------------------------------


async def test_a_plan_says_what_would_be_sent_and_sends_nothing(desk):
    attempt = desk.attempt("true", env={"COLOUR": "red"}, grace=7.0, deadline=60.0)
    held = await desk.provision(attempt)
    plan = desk.backend.plan(attempt, held)
    assert plan == desk.backend.plan(attempt, held)
    assert HostPlan.from_json(plan.hosts.to_json()) == plan.hosts
    assert (plan.hosts.hosts, plan.hosts.devices_per_host, len(plan.hosts.addresses)) == (2, 1, 2)
    assert (plan.hosts.env["COLOUR"], plan.hosts.grace, plan.hosts.deadline) == ("red", 7.0, 60.0)
    assert len(plan.commands) == 2 or len(plan.objects) == 2
    assert not desk.storage.root.exists()
    await desk.backend.release(held)


# -- observe ---------------------------------------------------------------------------------------


async def test_snapshots_come_at_once_then_on_change_and_are_complete(desk):
    _, _, handle = await desk.begin("sleep 0.3")
    snapshots: list[Observation] = []
    async with aclosing(desk.backend.observe(handle)) as observing:
        with anyio.fail_after(5):
            snapshots.append(await anext(observing))
        with anyio.fail_after(desk.patience):
            while not snapshots[-1].has_ended:
                snapshots.append(await anext(observing))
    assert not snapshots[0].has_ended
    assert all([host.host for host in seen.hosts] == [0, 1] and seen.attempt == 1 for seen in snapshots)
    assert all(before != after for before, after in zip(snapshots, snapshots[1:], strict=False))
    assert [record.exit_code for record in records(snapshots[-1])] == [ExitCode.DONE] * 2
    assert not snapshots[-1].has_failure
    await desk.backend.forget(handle)


async def test_each_host_s_record_says_how_its_program_ended(desk):
    _, _, handle = await desk.begin(f"case {HOST} in 0) exit 3;; 1) kill -9 $$;; esac")
    exited, killed = records(await desk.ended(handle))
    assert (exited.program_code, exited.program_signal, exited.exit_code) == (3, None, ExitCode.PROGRAM_RAISED)
    assert (killed.program_code, killed.program_signal) == (None, 9)
    assert exited.attempt == killed.attempt == 1 and (exited.host, killed.host) == (0, 1)
    assert 0 < exited.ended_after < 20
    await desk.backend.forget(handle)


async def test_a_program_that_is_not_there_ends_with_127(desk):
    _, _, handle = await desk.begin("exec no-such-word", accelerator="cpu")
    assert [record.program_code for record in records(await desk.ended(handle))] == [127]
    await desk.backend.forget(handle)


# -- submit ----------------------------------------------------------------------------------------


async def test_submitting_again_runs_the_program_once(desk):
    other = desk.open()  # as another process would
    plan, held, handle = await desk.begin(f"echo {HOST} >> {desk.folder}/ran; sleep 0.3")
    await desk.backend.submit(plan, held)
    await other.submit(plan, None)
    seen = await desk.ended(handle)
    await other.submit(plan, None)
    assert sorted((desk.storage.root / "ran").read_text().split()) == ["0", "1"]
    again = await desk.ended(json.loads(json.dumps(other.attach(plan))))
    assert not seen.has_failure and records(again) == records(seen)
    for backend in (desk.backend, other):
        await backend.forget(handle)


async def test_any_process_can_attach(desk):
    plan, _, handle = await desk.begin(f"touch {desk.folder}/ready; {FOREVER}", accelerator="cpu")
    await desk.written("ready")
    other = desk.open()
    attached = json.loads(json.dumps(other.attach(plan)))
    assert attached == json.loads(json.dumps(handle))
    await desk.seen(attached, lambda seen: all(host.phase is HostPhase.RUNNING for host in seen.hosts))
    await other.stop(attached)
    assert {record.exit_code for record in records(await desk.ended(handle))} == {ExitCode.PREEMPTED}
    await desk.backend.forget(handle)


# -- logs ------------------------------------------------------------------------------------------


async def lines(desk, handle, **which) -> list[tuple[int, str]]:
    with anyio.fail_after(20):
        return [(line.host, line.text) async for line in desk.backend.logs(handle, **which)]


async def test_logs_of_all_hosts_of_one_host_and_followed_to_the_end(desk):
    shell = f"echo first {HOST}; echo error >&2; sleep 0.2; printf 'half a '; sleep 0.2; printf 'line, no end'"
    _, _, handle = await desk.begin(shell)
    followed = await lines(desk, handle, follow=True)
    for host in (0, 1):
        expected = [f"first {host}", "error", "half a line, no end"]
        assert [text for number, text in followed if number == host] == expected
        assert await lines(desk, handle, hosts=(host,)) == [(host, text) for text in expected]
    assert sorted(await lines(desk, handle)) == sorted(followed)
    assert await lines(desk, handle, hosts=(1,), tail=2) == [(1, text) for text in expected[1:]]
    await desk.backend.forget(handle)


# -- stop ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_asked", "reason", "code"),
    [(True, StopReason.STOP, ExitCode.STOPPED), (False, StopReason.NOTICE, ExitCode.PREEMPTED)],
)
async def test_told_to_stop_a_program_may_save_and_leave(desk, is_asked, reason, code):
    trap = f"trap 'touch {desk.folder}/saved-{HOST}; exit 0' TERM; touch {desk.folder}/ready-{HOST}"
    _, _, handle = await desk.begin(f"{trap}; {FOREVER}")
    for host in (0, 1):
        await desk.written(f"ready-{host}")
    if is_asked:
        desk.storage.put(layout.STOP, b"{}")
    await desk.backend.stop(handle)
    await desk.backend.stop(handle)  # once more changes nothing
    found = records(await desk.ended(handle))
    assert {(record.stop_reason, record.exit_code) for record in found} == {(reason, code)}
    assert {path.name for path in desk.storage.root.glob("saved-*")} == {"saved-0", "saved-1"}
    await desk.backend.forget(handle)


async def test_a_program_that_does_not_leave_is_killed_after_its_grace(desk):
    shell = f"trap '' TERM; touch {desk.folder}/ready; {FOREVER}"
    _, _, handle = await desk.begin(shell, accelerator="cpu", grace=0.4)
    await desk.written("ready")
    began = anyio.current_time()
    await desk.backend.stop(handle)
    (record,) = records(await desk.ended(handle))
    assert anyio.current_time() - began >= 0.4
    assert (record.program_signal, record.stop_reason, record.killed_by) == (9, StopReason.NOTICE, KilledBy.GRACE)
    await desk.backend.forget(handle)


async def test_a_stop_reaches_hosts_that_are_still_starting_or_never_began(desk):
    _, _, handle = await desk.begin(FOREVER)
    await desk.backend.stop(handle)
    seen = await desk.ended(handle)
    assert all(host.has_failed for host in seen.hosts)
    assert {host.record.stop_reason for host in seen.hosts if host.record} <= {StopReason.NOTICE}
    await desk.backend.forget(handle)


async def test_a_deadline_ends_an_attempt(desk):
    _, _, handle = await desk.begin(FOREVER, accelerator="cpu", deadline=0.4)
    found = records(await desk.ended(handle))
    assert {(record.stop_reason, record.exit_code) for record in found} == {(StopReason.DEADLINE, ExitCode.STOPPED)}
    await desk.backend.forget(handle)


# -- forget ----------------------------------------------------------------------------------------


async def test_forget_ends_every_process_also_one_in_a_session_of_its_own(desk, machine):
    _, held, handle = await desk.begin(
        f"setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &) ; touch {desk.folder}/ready-{HOST}; {FOREVER}"
    )
    for host in (0, 1):
        await desk.written(f"ready-{host}")
    assert len(machine.left()) >= 6
    await desk.backend.forget(handle)
    assert machine.left() == []
    await desk.backend.forget(handle)
    await desk.backend.stop(handle)
    assert (await desk.ended(handle)).has_failure


async def test_what_a_program_left_running_ends_with_it_and_its_record_stays(desk, machine, wait_until):
    _, _, handle = await desk.begin("sleep 600 & true", accelerator="cpu")
    seen = await desk.ended(handle)
    assert not seen.has_failure
    wait_until(lambda: machine.left() == [], "the runners' end after their records")
    await desk.backend.forget(handle)
    assert records(await desk.ended(handle)) == records(seen)
