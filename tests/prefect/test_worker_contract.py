"""What Prefect promises of every worker, asked of ours and, so that the questions are the right ones, of its own.

Prefect ships no suite for workers: what it calls one in `prefect.testing.standard_test_suites` is for its server's
queue of cleanups. This is ours in its place, through what people use: the server's API, `prefect worker start`, and the
methods that other parts of Prefect call.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import anyio.to_thread
import httpx
import pytest
from contract_flows import work
from prefect.client.orchestration import get_client
from prefect.client.schemas.worker_channel import CANCELLING_TIMEOUT_TEARDOWN
from prefect.exceptions import InfrastructureNotFound
from prefect.flows import bind_flow_to_infrastructure
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.workers.base import BaseWorker
from prefect.workers.process import ProcessWorker
from prefect_server import PREFECT, Server, running, wait_for

from prefect_tpu.flows.work_pool.bundle_storage import our_steps
from prefect_tpu.flows.work_pool.worker import TpuSliceWorker
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]
T = TypeVar("T")
FLOWS = Path(__file__).parent / "contract_flows.py"
Worker = type[BaseWorker[Any, Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A work pool of one sort, and who serves it."""

    server: Server
    folder: Path
    kind: Worker
    name: str

    @property
    def of_slices(self) -> dict[str, str]:
        """The part of the environment that says where they are and lie."""
        return {"XDG_DATA_HOME": str(self.folder / "data"), Env.OUTPUT: str(self.folder / "jobs"), Env.SLICES: "4"}

    @property
    def environment(self) -> dict[str, str]:
        return {**self.server.environment, **self.of_slices}

    def create(self, **said: Any) -> dict[str, Any]:
        template = self.kind.get_default_base_job_template()
        found: dict[str, Any] = self.server.ask(
            "/work_pools/", name=self.name, type=self.kind.type, base_job_template=template, **said
        )
        return found

    def deployment(self, **variables: Any) -> str:
        flow = self.server.ask("/flows/", name="work")["id"]
        made = self.server.ask(
            "/deployments/", name=f"{self.name}-{uuid4()}", flow_id=flow, work_pool_name=self.name,
            path=str(FLOWS.parent), entrypoint=f"{FLOWS.name}:work", job_variables=variables,
        )  # fmt: skip
        return str(made["id"])

    def run(self, deployment: str, *, later: float = 0, **parameters: Any) -> dict[str, Any]:
        due = (datetime.now(UTC) + timedelta(seconds=later)).isoformat()
        found: dict[str, Any] = self.server.ask(
            f"/deployments/{deployment}/create_flow_run", parameters={"folder": str(self.folder), **parameters},
            state={"type": "SCHEDULED", "state_details": {"scheduled_time": due}},
        )  # fmt: skip
        return found

    def now(self, run: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.server.ask(f"/flow_runs/{run['id']}")
        return found

    def sign(self, run: dict[str, Any], what: str) -> Path:
        return self.folder / run["name"] / what

    def wait_until_begun(self, run: dict[str, Any]) -> None:
        wait_for(self.sign(run, "began").exists, f"the start of {run['name']}")

    def command(self, *words: str) -> list[str]:
        return [*PREFECT, "worker", "start", "--type", self.kind.type, "--pool", self.name, "--name", "one", *words]

    def worker(self, **said: Any) -> BaseWorker[Any, Any, Any]:
        return self.kind(work_pool_name=self.name, name="one", **said)

    def asked(self, question: Callable[[], Awaitable[T]]) -> T:
        """What a coroutine of this process says, which finds the server."""

        async def ask() -> T:
            return await question()

        with temporary_settings({PREFECT_API_URL: self.server.environment["PREFECT_API_URL"]}):
            return asyncio.run(ask())


@pytest.fixture(
    params=[pytest.param(ProcessWorker, marks=pytest.mark.long, id="stock"), pytest.param(TpuSliceWorker, id="ours")]
)
def pool(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Pool:
    return Pool(server=server, folder=tmp_path, kind=request.param, name=f"contract-{uuid4().hex[:8]}")


@pytest.fixture
def ours(server: Server, tmp_path: Path) -> Pool:
    """For what Prefect leaves to each sort of worker, and its own leaves out."""
    return Pool(server=server, folder=tmp_path, kind=TpuSliceWorker, name=f"contract-{uuid4().hex[:8]}")


@pytest.fixture
def serving(pool: Pool) -> Iterator[Pool]:
    """One worker as a person starts it; it makes the pool."""
    with running(pool.command(), pool.environment, pool.folder, "worker"):
        wait_for(lambda: workers(pool), "the worker")
        yield pool


def workers(pool: Pool) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = pool.server.ask(f"/work_pools/{pool.name}/workers/filter", limit=10)
    except httpx.HTTPStatusError:  # the pool is not there yet
        return []
    return found


def test_it_is_found_by_its_type(pool: Pool) -> None:
    assert BaseWorker.get_worker_class_from_type(pool.kind.type) is pool.kind
    assert pool.kind.type in BaseWorker.get_all_available_worker_types()
    assert pool.kind.get_description()


def test_its_template_makes_a_pool_and_a_configuration(pool: Pool) -> None:
    template = pool.create()["base_job_template"]
    configuration = pool.asked(lambda: pool.kind.job_configuration.from_template_and_values(template, {}))
    assert type(configuration) is pool.kind.job_configuration
    fields = template["variables"]["properties"]
    assert {"env", "labels", "command", "name"} <= fields.keys()
    assert all(field["description"].endswith(".") for field in fields.values())


def test_what_runs_say_counts_more_than_what_deployments_say_and_environments_are_merged(pool: Pool) -> None:
    template = pool.kind.get_default_base_job_template()
    template["variables"]["properties"]["env"]["default"] = {"A": "pool", "B": "pool"}
    said = {"env": {"B": "run"}, "command": "true"}
    found = pool.asked(lambda: pool.kind.job_configuration.from_template_and_values(template, said))
    assert found.command == "true" and found.env == {"A": "pool", "B": "run"}


def test_a_variable_of_prefect_s_is_filled_in(pool: Pool) -> None:
    name = f"word_{uuid4().hex[:8]}"
    pool.server.ask("/variables/", name=name, value="text")
    said = {"labels": {"said": f"{{{{ prefect.variables.{name} }}}}"}}

    async def ask() -> Any:
        async with get_client() as client:
            template = pool.kind.get_default_base_job_template()
            return await pool.kind.job_configuration.from_template_and_values(template, said, client=client)

    assert pool.asked(ask).labels["said"] == "text"


def test_a_pool_that_is_missing_is_made_unless_that_is_not_wanted(pool: Pool) -> None:
    async def enter(is_made: bool) -> dict[str, Any]:
        async with pool.worker(create_pool_if_not_found=is_made) as worker:
            return worker.get_status()

    assert pool.asked(lambda: enter(False))["work_pool"] is None
    assert pool.server.client.get(f"/work_pools/{pool.name}").status_code == 404
    status = pool.asked(lambda: enter(True))
    assert (status["name"], status["work_pool"]["type"]) == ("one", pool.kind.type)
    assert [worker["name"] for worker in workers(pool)] == ["one"]


def test_a_run_is_taken_and_ends_and_its_place_is_kept(serving: Pool) -> None:
    run = serving.run(serving.deployment(env={"WORD": "from the deployment"}))
    assert serving.server.wait_for_end(run)["type"] == "COMPLETED"
    assert serving.now(run)["infrastructure_pid"]
    assert serving.sign(run, "environment").read_text() == "from the deployment"


def test_a_run_that_is_due_later_is_not_taken_before(serving: Pool) -> None:
    deployment = serving.deployment()
    later, now = serving.run(deployment, later=3600), serving.run(deployment)
    serving.server.wait_for_end(now)
    assert serving.now(later)["state"]["type"] == "SCHEDULED"


def test_a_pool_that_is_paused_gives_nothing_and_goes_on_afterwards(serving: Pool) -> None:
    deployment = serving.deployment()
    serving.server.change(f"/work_pools/{serving.name}", is_paused=True)
    run = serving.run(deployment)
    polled = workers(serving)[0]["last_heartbeat_time"]
    wait_for(lambda: workers(serving)[0]["last_heartbeat_time"] != polled, "a heartbeat of the worker")
    assert serving.now(run)["state"]["type"] == "SCHEDULED"
    serving.server.change(f"/work_pools/{serving.name}", is_paused=False)
    assert serving.server.wait_for_end(run)["type"] == "COMPLETED"


def test_no_more_runs_are_taken_at_once_than_its_limit(pool: Pool) -> None:
    talkative = {**pool.environment, "PREFECT_LOGGING_LEVEL": "DEBUG"}
    with running(pool.command("--limit", "1"), talkative, pool.folder, "worker"):
        wait_for(lambda: workers(pool), "the worker")
        deployment = pool.deployment()
        first = pool.run(deployment, holds=True)
        pool.wait_until_begun(first)
        second = pool.run(deployment)
        wait_for(lambda: "limit reached" in (pool.folder / "worker.log").read_text(), "word of the limit")
        assert pool.now(second)["state"]["type"] == "SCHEDULED"
        pool.sign(first, "go").touch()
        assert [pool.server.wait_for_end(run)["type"] for run in (first, second)] == ["COMPLETED"] * 2


def test_two_workers_start_a_run_once(pool: Pool) -> None:
    other = [word if word != "one" else "two" for word in pool.command()]
    with (
        running(pool.command(), pool.environment, pool.folder, "worker"),
        running(other, pool.environment, pool.folder, "other"),
    ):
        wait_for(lambda: len(workers(pool)) == 2, "two workers")
        deployment = pool.deployment()
        runs = [pool.run(deployment) for _ in range(3)]
        assert [pool.server.wait_for_end(run)["type"] for run in runs] == ["COMPLETED"] * 3
        assert [pool.now(run)["run_count"] for run in runs] == [1, 1, 1]


def test_it_leaves_when_it_is_to_look_once(pool: Pool) -> None:
    pool.create()
    run = pool.run(pool.deployment())
    with running(pool.command("--run-once"), pool.environment, pool.folder, "worker") as process:
        wait_for(lambda: process.poll() is not None, "the end of the worker")
        assert process.returncode == 0, (pool.folder / "worker.log").read_text()
    assert pool.server.wait_for_end(run)["type"] == "COMPLETED"


def test_it_says_that_it_is_well(pool: Pool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {"PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1", "PREFECT_WORKER_WEBSERVER_PORT": port}
    with running(pool.command("--with-healthcheck"), {**pool.environment, **own}, pool.folder, "worker"):

        def look() -> httpx.Response | None:
            try:
                return httpx.get(f"http://127.0.0.1:{port}/health")
            except httpx.HTTPError:
                return None

        assert wait_for(look, "the worker's health").status_code == 200


def test_a_cancelled_run_ends(serving: Pool) -> None:
    run = serving.run(serving.deployment(), holds=True)
    serving.wait_until_begun(run)
    serving.server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING"})
    assert serving.server.wait_for_end(run)["type"] == "CANCELLED"


def test_settings_that_cannot_be_used_end_the_run_with_a_message(ours: Pool) -> None:
    with running(ours.command(), ours.environment, ours.folder, "worker"):
        wait_for(lambda: workers(ours), "the worker")
        state = ours.server.wait_for_end(ours.run(ours.deployment(accelerator="v6e-15")))
        assert state["type"] == "FAILED" and "v6e-16" in state["message"]


def test_a_run_whose_deployment_is_gone_is_cancelled_and_takes_no_place(ours: Pool) -> None:
    """One that ran before: Prefect deletes those that never did with their deployment."""
    ours.create()
    gone = ours.run(ours.deployment())
    for state in ({"type": "RUNNING"}, {"type": "SCHEDULED", "name": "AwaitingRetry"}):
        ours.server.ask(f"/flow_runs/{gone['id']}/set_state", state=state, force=True)
    ours.server.delete(f"/deployments/{gone['deployment_id']}")
    with running(ours.command("--limit", "1"), ours.environment, ours.folder, "worker"):
        assert ours.server.wait_for_end(gone)["type"] == "CANCELLED"
        assert "no longer exists" in ours.now(gone)["state"]["message"]
        assert ours.server.wait_for_end(ours.run(ours.deployment()))["type"] == "COMPLETED"


@pytest.mark.filterwarnings("ignore:Ad-hoc flow submission:FutureWarning")  # Prefect says so of each
@pytest.mark.leaves_connections  # of a client that Prefect opens for it
def test_a_flow_that_python_submits_is_found_and_can_be_cancelled(ours: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `worker.submit(flow)`. Prefect stores the place of no such run, so each sort of worker has to."""
    launcher = {"upload": [sys.executable], "execution": ["python"]}
    bound = bind_flow_to_infrastructure(
        work, work_pool=ours.name, worker_cls=TpuSliceWorker, job_variables={}, launcher=launcher
    )
    for name, value in ours.of_slices.items():
        monkeypatch.setenv(name, value)
    steps = our_steps(str(ours.folder / "jobs"))
    storage = {"bundle_upload_step": steps.upload, "bundle_execution_step": steps.execute}
    ours.create()
    ours.server.change(f"/work_pools/{ours.name}", storage_configuration=storage)

    async def submit() -> None:
        async with ours.worker() as worker:
            future = await worker.submit(bound, {"folder": str(ours.folder), "holds": True})
            await anyio.to_thread.run_sync(cancel, {"id": str(future.flow_run_id)})

    def cancel(submitted: dict[str, Any]) -> None:
        run = ours.now(submitted)
        ours.wait_until_begun(run)
        folder = LocalStorage(ours.now(run)["infrastructure_pid"])
        assert history.is_there(folder) and run["deployment_id"] is None
        ours.server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING"})
        assert ours.server.wait_for_end(run)["type"] == "CANCELLED"
        wait_for(lambda: history.read_result(folder), "the end of its job")

    ours.asked(submit)


def test_what_a_server_tells_it_to_end_is_ended_however_often_it_says_so(ours: Pool) -> None:
    """By the channel on which a server asks for what was cancelled too long ago."""
    assert CANCELLING_TIMEOUT_TEARDOWN in ours.worker().handled_cleanup_kinds
    with running(ours.command(), ours.environment, ours.folder, "worker"):
        wait_for(lambda: workers(ours), "the worker")
        run = ours.run(ours.deployment(), holds=True)
        ours.wait_until_begun(run)
        pid = ours.now(run)["infrastructure_pid"]
        for _ in range(2):
            ours.asked(lambda: kill(ours, pid))
        assert history.read_result(LocalStorage(pid)) is not None
        assert ours.server.wait_for_end(run)["type"] == "CANCELLED"


def test_what_is_not_there_cannot_be_ended_and_is_told_in_prefect_s_words(ours: Pool) -> None:
    ours.create()
    with pytest.raises(BaseException) as caught:
        ours.asked(lambda: kill(ours, str(ours.folder / "jobs" / "none")))
    assert isinstance(first(caught.value), InfrastructureNotFound)


async def kill(pool: Pool, pid: str) -> None:
    async with pool.worker() as worker:
        template = worker.work_pool.base_job_template
        configuration = await worker.job_configuration.from_template_and_values(template, {}, client=worker.client)
        await worker.kill_infrastructure(pid, configuration, 10)


def first(exc: BaseException) -> BaseException:
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
