"""What becomes of runs whose slices go, and of slices whose runs nobody wants: on this machine, by real workers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from prefect_server import Server, wait_for
from slice_events_told import named, told_of_run
from slice_worker_pool import Run, SliceWorkerPool, kill, slice_worker_pool

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import name_from_run

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(900)]

PREEMPTED, CANCELLED, FORCED, DELETED, ENDED, ADOPTED = STORIES = (
    "preempted", "cancelled", "forced", "deleted", "ended", "adopted",
)  # fmt: skip


@pytest.fixture(scope="module")
def pool(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SliceWorkerPool]:
    with slice_worker_pool(server, tmp_path_factory.mktemp("reconciled")) as pool:
        pool.start_worker()
        yield pool


@pytest.fixture(scope="module")
def runs(pool: SliceWorkerPool) -> dict[str, Run]:
    """One for each story; all begin together, and each is where its story begins."""
    said = {ENDED: {"max_preemptions": 0}}
    runs = {story: pool.run(**said.get(story, {})) for story in STORIES}
    for run in runs.values():
        pool.wait_until_begun(run)
    return runs


@pytest.fixture(scope="module")
def without_deployment(pool: SliceWorkerPool) -> Run:
    """Its program is no engine, so what it says of its state is said by the test."""
    flow = pool.server.ask("/flows/", name="hold")["id"]
    program = f'{sys.executable} -c "import time; time.sleep(600)"'
    run: Run = pool.server.ask(
        "/flow_runs/", flow_id=flow, work_pool_name=pool.name, state={"type": "SCHEDULED"},
        job_variables={"accelerator": "cpu", "grace": 1, "max_preemptions": 1, "command": program},
    )  # fmt: skip
    return run


def test_a_slice_that_is_taken_away_comes_again_and_its_run_goes_on(
    pool: SliceWorkerPool, runs: dict[str, Run]
) -> None:
    run = runs[PREEMPTED]
    pool.runner(run).send_signal(signal.SIGTERM)
    pool.wait_until_begun(run, times=2)
    pool.let_go_on(run)
    assert pool.server.wait_for_end(run, but_not=frozenset({"CRASHED"}))["type"] == "COMPLETED"
    assert pool.now(run)["run_count"] == 2
    states = pool.states(run)
    crashed = next(index for index, (type, _, _) in enumerate(states) if type == "CRASHED")
    assert states[crashed][2].startswith("preempted on host 0: Host 0 was told to leave")
    assert states[crashed + 1][:2] == ("SCHEDULED", "AwaitingRetry")
    assert [type for type, _, _ in states].count("RUNNING") == 2
    assert pool.server.log(run, "Attempt 1 ended: preempted on host 0")
    pool.wait_until_gone(run)


def test_it_is_said_what_a_run_waits_for(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    names = [name for type, name, _ in pool.states(runs[PREEMPTED]) if type == "PENDING"]
    assert names[:1] == ["Pending"] and "Submitted" in names and "Starting" in names


def test_of_a_slice_is_told_by_events(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    run, job = runs[PREEMPTED], name_from_run(str(runs[PREEMPTED]["id"]))
    first, second = (f"prefect-tpu.slice.{job}-{attempt}" for attempt in (1, 2))
    expected = {
        (first, "provisioned"), (first, "started"), (first, "preempted"), (first, "restarted"),
        (second, "provisioned"), (second, "started"), (second, "finished"),
    }  # fmt: skip

    def told() -> bool:
        events = told_of_run(pool.server, run)
        pairs = [(one["resource"]["prefect.resource.id"], one["event"].rpartition(".")[2]) for one in events]
        assert len(pairs) == len(set(pairs))
        return set(pairs) - {(first, "queued"), (second, "queued")} == expected  # whether it waits is the machine's

    wait_for(told, "all events of the slices")
    deployment = told_of_run(pool.server, run)[0]["resource"]["prefect-tpu.deployment"]
    assert deployment == pool.now(run)["deployment_id"]


def test_a_run_that_is_cancelled_leaves_nothing(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    run = runs[CANCELLED]
    pool.server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert pool.server.wait_for_end(run)["type"] == "CANCELLED"
    pool.wait_until_gone(run)


def test_so_does_one_that_is_cancelled_by_force(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    run = runs[FORCED]
    pool.server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLED"}, force=True)
    pool.wait_until_gone(run)
    assert pool.now(run)["state"]["type"] == "CANCELLED"


def test_so_does_one_that_is_deleted(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    run = runs[DELETED]
    folder = pool.job(run)
    pool.server.delete(f"/flow_runs/{run['id']}")
    wait_for((folder / layout.RESULT).exists, "the end of a deleted run's job")
    wait_for(lambda: not pool.processes_of(folder), "the end of a deleted run's processes")


def test_a_run_without_a_deployment_goes_on_and_never_seems_to_have_ended(
    pool: SliceWorkerPool, without_deployment: Run
) -> None:
    run = without_deployment
    for attempt in (1, 2):
        wait_for(lambda: (pool.job(run) / layout.plan(attempt)).exists(), f"attempt {attempt}")  # noqa: B023
        runner = pool.runner(run)
        pool.server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "RUNNING"}, force=True)
        runner.send_signal(signal.SIGTERM)
        wait_for(lambda: (pool.job(run) / layout.outcome(attempt)).exists(), f"the end of {attempt}")  # noqa: B023
    assert pool.server.wait_for_end(run)["type"] == "CRASHED"
    types = [type for type, _, _ in pool.states(run)]
    assert types.count("CRASHED") == 1 and types[-1] == "CRASHED", types
    assert ("SCHEDULED", "AwaitingRetry") in [state[:2] for state in pool.states(run)]


def test_what_is_lost_too_often_has_crashed_for_good(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    run = runs[ENDED]
    pool.runner(run).kill()
    pool.wait_until_gone(run)
    state = pool.wait_for_state(run, "CRASHED")
    assert "host_lost" in state["message"]
    types = [type for type, _, _ in pool.states(run)]
    assert types[-1] == "CRASHED" and types.count("RUNNING") == 1, types
    events = {"lost", "failed"}
    wait_for(lambda: events <= {name for _, name in named(told_of_run(pool.server, run))}, "what is told of its end")
    (failed,) = [one for one in told_of_run(pool.server, run) if one["event"].endswith(".failed")]
    assert failed["payload"]["kind"] == "host_lost" and failed["resource"]["prefect-tpu.attempt"] == "1"


def test_another_worker_takes_over_what_one_that_was_killed_left(pool: SliceWorkerPool, runs: dict[str, Run]) -> None:
    run = runs[ADOPTED]
    kill(pool.workers[0])
    living = {process.pid for process in pool.processes(run)}
    pool.start_worker()
    pool.let_go_on(run)
    assert living and pool.server.wait_for_end(run)["type"] == "COMPLETED"
    pool.wait_until_gone(run)
    assert pool.now(run)["run_count"] == 1
