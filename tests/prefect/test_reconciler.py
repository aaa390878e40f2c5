"""What becomes of runs by what is written of their jobs: slices do as a test says, the Prefect server is a real one.

What an engine would say of its run, the test says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from pool_in_process import LOOK_SECONDS, PATIENCE, Job, Scene, Slices, Story, begun, ended, play_story, taken, until
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelled, Cancelling, Completed, Crashed, Failed, Pending, Running
from prefect_server import Server, wait_for
from slice_events_told import named, told_of_run

from prefect_tpu.flows.work_pool.cases import Case
from prefect_tpu.flows.work_pool.tables import Tables
from prefect_tpu.flows.work_pool.words import crashed
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import write_json
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.asked_by import AskedBy, write_asked_by
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]
Play = Callable[[Story], None]


@pytest.fixture
def play(server: Server, tmp_path: Path) -> Play:
    """Plays a story with a pool of its own."""
    return partial(play_story, server, tmp_path)


async def completes(scene: Scene, run: FlowRun, job: Job) -> None:
    """In its second attempt, on another slice."""
    await job.until_attempt(2)
    await scene.say(run, Running(), after="Starting")
    await scene.say(run, Completed())
    job.slices.show(ended(2))
    assert (await job.until_over()).state == "succeeded"


def test_a_run_whose_slice_is_lost_crashes_is_handed_out_again_and_goes_on(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker() as reconciler:
            run, job = await begun(scene)
            job.slices.show(taken(1))
            state = await scene.until(run, "AwaitingRetry")
            assert state.state_details.scheduled_time is not None and "no progress" in (state.message or "")
            await scene.say(run, Pending())  # as to a worker that it is handed to
            reconciler.nudge(job.folder)
            await completes(scene, run, job)
        names = [name for name in await scene.names(run) if name != "Queued"]  # where its back-off is not over yet
        assert names == [
            "Pending", "Submitted", "Starting", "Running", "Crashed", "AwaitingRetry",
            "Pending", "Submitted", "Starting", "Running", "Completed",
        ], names  # fmt: skip
        assert (await scene.client.read_flow_run(run.id)).run_count == 2

    play(story)


async def tables(scene: Scene, run: FlowRun) -> list[str]:
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    return [str(found.data) for found in await scene.client.read_artifacts(artifact_filter=wanted)]


def test_an_ended_run_has_one_table_of_its_slices_however_many_workers_see_it(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker(1), scene.worker(2):
            run, job = await begun(scene)
            job.slices.show(taken(1))
            await scene.until(run, "AwaitingRetry")
            await scene.say(run, Pending())
            await completes(scene, run, job)
            with anyio.fail_after(PATIENCE):
                while not await tables(scene, run):
                    await anyio.sleep(LOOK_SECONDS)
        result, now = await job.until_over(), await scene.client.read_flow_run(run.id)
        await Tables(scene.client).leave(now, job.storage)  # as one that comes later does
        (table,) = await tables(scene, run)
        assert [name in table for name in ("| 1 | v6e-8 | preempted |", "| 2 | v6e-8 | succeeded |")] == [True, True]
        job.storage.put(layout.RESULT, write_json(replace(result, state="failed").to_json()))  # of another round
        await Tables(scene.client).leave(now, job.storage)
        assert len(await tables(scene, run)) == 2

    play(story)


def test_what_a_run_was_moved_to_is_known_without_asking(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """Each proposal takes a busy server a second, one that it must refuse too."""

    async def story(scene: Scene) -> None:
        run = await scene.run()
        job = await scene.job(run)
        case = Case(id=run.id, folder=job.folder, run=run)
        async with scene.hands() as hands:  # and nobody who would look at runs, or hear of them
            await hands.see_to(case)
            assert case.run is not None and case.run.state_name == "Submitted"
            await scene.say(run, Running())
            await until(lambda: case.voice is not None and case.voice.has_begun, "the leader's begin")
            case.saw(await scene.client.read_flow_run(run.id), 0.0)
            job.slices.show(taken(1))
            await until(lambda: case.voice is not None and case.voice.due, "the verdict")
            for name in ("Crashed", "AwaitingRetry"):
                with anyio.fail_after(PATIENCE):
                    while case.run.state_name != name:  # the job's lease may be in other hands for a moment
                        await anyio.sleep(LOOK_SECONDS)
                        await hands.see_to(case)
                assert case.run.state_id == (await scene.states(run))[-1].id
            job.slices.show(ended(1))
        assert await scene.names(run) == ["Pending", "Submitted", "Running", "Crashed", "AwaitingRetry"]

    with caplog.at_level(logging.INFO, "prefect_tpu.flows.work_pool.transitions"):
        play(story)
    assert [record.getMessage() for record in caplog.records if "is not moved to" in record.getMessage()] == []


def test_a_lost_slice_is_told_while_what_is_left_of_it_is_still_ended(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker() as reconciler:
            run, job = await begun(scene)
            job.slices.are_stubborn = True
            job.slices.show(taken(1))
            await scene.until(run, "AwaitingRetry")
            await scene.say(run, Pending())
            reconciler.nudge(job.folder)
            assert job.slices.forgotten == [] and history.read_outcome(job.storage, 1) is None
            job.slices.are_stubborn = False
            await completes(scene, run, job)
        names = await scene.names(run)
        assert names.count("Crashed") == names.count("AwaitingRetry") == 1, names

    play(story)


def test_a_run_without_a_deployment_never_seems_to_have_ended_meanwhile(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run = await scene.run(has_deployment=False)
            job = await scene.job(run)
            await scene.say(run, Running(), after="Starting")
            job.slices.show(taken(1))
            await completes(scene, run, job)
        names = await scene.names(run)
        assert names.index("AwaitingRetry") == names.index("Running") + 1 and "Crashed" not in names, names

    play(story)


def test_what_is_lost_too_often_has_crashed_for_good(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run, job = await begun(scene, max_preemptions=0)
            job.slices.show(taken(1))
            assert "preempted" in ((await scene.until(run, "Crashed")).message or "")
            assert (await job.until_over()).state == "failed"

    play(story)


def test_an_end_that_the_engine_never_told_is_a_crash(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run, job = await begun(scene)
            job.slices.show(ended(1))
            assert "never told" in ((await scene.until(run, "Crashed")).message or "")

    play(story)


@pytest.mark.parametrize(
    "how",
    [
        Cancelling(),
        Cancelled(),
        pytest.param(Failed(), marks=pytest.mark.long),
        pytest.param(Crashed(message="by hand"), marks=pytest.mark.long),
    ],
    ids=lambda state: state.name,
)
def test_what_is_no_longer_wanted_is_stopped(play: Play, how: object) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run, job = await begun(scene)
            await scene.say(run, how, force=True)  # type: ignore[arg-type]
            assert (await job.until_over()).state == "stopped" and job.slices.told == [1]
            name = "Cancelled" if how.name == "Cancelling" else how.name  # type: ignore[attr-defined]
            await scene.until(run, name)

    play(story)


def test_so_is_what_has_lost_its_run(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run, job = await begun(scene)
            await scene.client.delete_flow_run(run.id)
            assert (await job.until_over()).state == "stopped"

    play(story)


def test_what_ended_while_no_worker_looked_is_seen_by_the_next(play: Play) -> None:
    """Also of a run that was deleted meanwhile, and of one whose worker was killed between the halves of a crash."""

    async def story(scene: Scene) -> None:
        async with scene.worker():
            halfway, job = await begun(scene)
            deleted, other = await begun(scene)
        await scene.client.delete_flow_run(deleted.id)
        cause = failure(FailureKind.PREEMPTED, "Host 1 was told to leave.")
        lost = AttemptSummary(number=1, accelerator="v6e-8", started=1.0, ended=2.0, outcome="preempted", failure=cause)
        history.write_outcome(job.storage, lost)
        await scene.say(halfway, Crashed(message=crashed(cause)))
        async with scene.worker(2):
            await scene.until(halfway, "AwaitingRetry")
            assert (await other.until_over()).state == "stopped"

    play(story)


def test_two_workers_move_a_run_once(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker(1), scene.worker(2):
            run, job = await begun(scene)
            job.slices.show(taken(1))
            await scene.until(run, "AwaitingRetry")
        names = await scene.names(run)
        assert names == ["Pending", "Submitted", "Starting", "Running", "Crashed", "AwaitingRetry"]

    play(story)


@pytest.mark.parametrize("message", ["ConnectError: no", "PrefectHTTPStatusError: Server error '503 No' for url 'u'"])
def test_a_run_that_could_not_be_submitted_for_a_while_is_handed_out_again(play: Play, message: str) -> None:
    async def story(scene: Scene) -> None:
        run = await scene.run()
        await scene.say(run, Crashed(message=f"Failed to submit flow run to infrastructure: {message}"))
        wrong = await scene.run()
        await scene.say(wrong, Crashed(message="Failed to submit flow run to infrastructure: ValueError: no"))
        async with scene.worker():
            await scene.until(run, "AwaitingRetry")
        assert (await scene.names(wrong))[-1] == "Crashed"

    play(story)


async def abandoned(scene: Scene) -> tuple[FlowRun, Job]:
    """A run of the flow `train`, and its job, whose process is no more."""
    run = await scene.run()
    job = await scene.job(run)
    await scene.say(run, Running())
    write_asked_by(job.storage, AskedBy(flow_run=str(run.id)))
    await scene.client.update_flow_run(run.id, infrastructure_pid="a process of this machine")
    assert Lease(job.storage, lambda: 0.0).take() is None
    lease = job.storage.get(layout.LEASE)
    assert lease is not None
    job.storage.put(layout.LEASE, lease.replace(b'"born": ', b'"born": 1'))
    return run, job


def test_a_job_of_train_whose_driver_was_killed_is_brought_to_its_end_and_its_run_is_told(play: Play) -> None:
    async def story(scene: Scene) -> None:
        run, job = await abandoned(scene)
        async with scene.worker():
            await job.until_attempt(1)
            job.slices.show(ended(1))
            assert (await job.until_over()).state == "succeeded"
            assert "a worker brought it there" in ((await scene.until(run, "Completed")).message or "")
        await until(lambda: job.storage.get(layout.ORPHANED) is None, "the end of the note")

    play(story)


def test_of_its_slices_is_told_by_events_of_that_run(play: Play, server: Server) -> None:
    runs: list[FlowRun] = []

    async def story(scene: Scene) -> None:
        run, job = await abandoned(scene)
        runs.append(run)
        for worker in (1, 2):  # what another one finds at its end is told once all the same
            async with scene.worker(worker):
                await job.until_attempt(1)
                job.slices.show(taken(1))
                await job.until_attempt(2)
                job.slices.show(ended(2))
                await scene.until(run, "Completed")

    play(story)
    expected = {
        (1, "provisioned"), (1, "started"), (1, "preempted"), (1, "restarted"),
        (2, "provisioned"), (2, "started"), (2, "finished"),
    }  # fmt: skip
    run = {"id": runs[0].id}
    events = wait_for(lambda: len(told := told_of_run(server, run)) >= len(expected) and told, "what is told of slices")
    assert set(named(events)) == expected and len(events) == len(expected)
    for event in events:
        related = {one["prefect.resource.role"]: one["prefect.resource.id"] for one in event["related"]}
        assert related["flow-run"] == f"prefect.flow-run.{runs[0].id}"
        assert related["deployment"] == f"prefect.deployment.{runs[0].deployment_id}" and "work-pool" in related


def test_a_job_of_another_server_s_run_keeps_the_note_by_which_that_run_is_told_its_end(play: Play) -> None:
    async def story(scene: Scene) -> None:
        run, other = await scene.run(), await scene.run()
        job, later = await scene.job(run), await scene.job(other)
        write_asked_by(job.storage, AskedBy(flow_run=str(UUID(int=1))))
        assert Lease(job.storage, lambda: 0.0).take() is None
        lease = job.storage.get(layout.LEASE)
        assert lease is not None
        job.storage.put(layout.LEASE, lease.replace(b'"born": ', b'"born": 1'))  # of a process that is no more
        await scene.client.delete_flow_run(run.id)
        async with scene.worker():
            await job.until_attempt(1)
            job.slices.show(ended(1))
            await job.until_over()
            await scene.say(other, Completed(), after="Starting")
            later.slices.show(ended(1))
            await later.until_over()
        assert job.storage.get(layout.ORPHANED) is not None

    play(story)


def test_a_job_whose_run_has_another_one_since_is_stopped(play: Play) -> None:
    async def story(scene: Scene) -> None:
        run = await scene.run()
        job = await scene.job(run)
        moved = LocalStorage(scene.folder / "elsewhere" / job.storage.root.name)
        async with scene.worker():
            await scene.until(run, "Starting")
        written = history.read_job(job.storage)
        assert written is not None
        scene.slices["elsewhere"] = Slices()
        moved.put(layout.JOB, replace(written, backend="elsewhere").to_json())
        moved.put(layout.ASKED_BY, job.storage.get(layout.ASKED_BY) or b"")
        await scene.client.update_flow_run(run.id, infrastructure_pid=moved.url)
        async with scene.worker():
            assert (await job.until_over()).state == "stopped"
            await scene.until(run, "Starting")
        assert history.read_result(moved) is None and not history.is_stop_asked(moved)

    play(story)


def test_a_job_that_cannot_be_read_holds_up_no_other_run(play: Play) -> None:
    async def story(scene: Scene) -> None:
        damaged, run = await scene.run(), await scene.run()
        unread, job = await scene.job(damaged), await scene.job(run)
        unread.storage.put(layout.ASKED_BY, b"{")
        async with scene.worker() as reconciler:
            reconciler.nudge(unread.storage.url)
            reconciler.nudge(job.storage.url)
            await scene.until(run, "Starting")

    play(story)


def test_secrets_of_a_run_that_is_over_go_though_their_worker_was_killed_before(play: Play) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run, job = await begun(scene)
            await scene.say(run, Completed())
            job.slices.show(ended(1))
            await job.until_over()
        job.storage.put(layout.SECRETS, b"{}")
        async with scene.worker(2):
            await until(lambda: job.storage.get(layout.SECRETS) is None, "the end of what was kept")

    play(story)


def test_a_job_that_nobody_drives_on_purpose_is_left_alone(play: Play) -> None:
    async def story(scene: Scene) -> None:
        other, run = await begun_later(scene)
        async with scene.worker():
            await scene.say(run, Running(), after="Starting")
        assert history.attempt_numbers(other.storage) == []

    play(story)


async def begun_later(scene: Scene) -> tuple[Job, FlowRun]:
    left, run = await scene.run(), await scene.run()
    job = await scene.job(left)
    write_asked_by(job.storage, AskedBy(flow_run=str(UUID(int=1))))
    await scene.client.delete_flow_run(left.id)
    await scene.job(run)
    return job, run
