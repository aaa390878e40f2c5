"""Ready-made automations on a real server: installed, brought up to date, removed, and each of them acts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pool_in_process import Scene, begun, ended, play_story
from prefect_jobs import PROGRAM, Job, Orchestrators
from prefect_server import PATIENCE, PREFECT, Server, running, wait_for
from serving import Serving
from slice_events_told import told_of_run

from prefect_tpu.infra.contract import ExitCode

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]

EACH = """
import sys
from prefect_tpu.flows.cli import main
for line in sys.argv[1:]:
    try:
        main(["automations", *line.split()])
    except SystemExit as left:
        print("status", int(left.code or 0))
    sys.stdout.flush()
"""
POOL = "without-quota"
TELL, CANCEL, EVALUATE, PAUSE = NAMES = (
    "prefect-tpu: tell on preemption", "prefect-tpu: cancel on stall", "prefect-tpu: evaluate after training",
    f"prefect-tpu: pause without quota ({POOL})",
)  # fmt: skip
MINE = "prefect-tpu: of my own"
PAUSING = f"install pause-without-quota --pool {POOL}"
EVALUATES = {"type": "object", "properties": {"output": {"type": "string"}, "attempt": {"type": "integer"}}}


def shell(server: Server, *lines: str, status: int = 0) -> str:
    """What these commands print, one after the other in one process: each imports Prefect, which takes seconds."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", EACH, *lines], env=dict(server.environment), cwd=server.folder,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.count(f"status {status}\n") == len(lines), done.stdout
    return done.stdout.replace(f"status {status}\n", "")


class Listener(Serving):
    """Where notifications go."""

    def __init__(self) -> None:
        super().__init__(_Handler, "notifications")
        self.heard: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_POST(self) -> None:
        self.server.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the automations act on."""

    listener: Listener
    block: str
    deployment: str


@pytest.fixture(scope="module")
def place(server: Server) -> Iterator[Place]:
    """Nothing of it is there for other tests of this server."""
    with Listener() as listener:
        url = f"http://127.0.0.1:{listener.server_port}/"
        kind = server.ask("/block_types/slug/custom-webhook")["id"]
        (schema,) = server.ask("/block_schemas/filter", block_schemas={"block_type_id": {"any_": [kind]}})[:1]
        server.ask(
            "/block_documents/", name="listener", block_type_id=kind, block_schema_id=schema["id"],
            data={"name": "listener", "url": url, "json_data": {"subject": "{{subject}}", "body": "{{body}}"}},
        )  # fmt: skip
        flow = server.ask("/flows/", name="evaluate")["id"]
        made = server.ask("/deployments/", name="results", flow_id=flow, parameter_openapi_schema=EVALUATES)
        server.ask("/work_pools/", name=POOL, type="process", base_job_template={})
        yield Place(listener=listener, block="custom-webhook/listener", deployment=made["id"])
        shell(server, "remove")


@pytest.fixture(scope="module")
def installed(server: Server, place: Place) -> str:
    """What the first installation printed: all, and of the last one that of a pool."""
    of_all = "tell-on-preemption cancel-on-stall evaluate-after-training"
    return shell(server, f"install {of_all} --block {place.block} --deployment evaluate/results", PAUSING)


def there(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ask("/automations/filter", sort="NAME_ASC")
    return found


def names(server: Server) -> list[str]:
    return [one["name"] for one in there(server)]


# Installing


def test_what_is_lacking_or_not_there_is_named_with_what_to_do(server: Server, place: Place) -> None:
    """The last one's flow cannot be told where results lie."""
    before = names(server)
    flow = server.ask("/flows/", name="deaf")["id"]
    server.ask("/deployments/", name="results", flow_id=flow, parameter_openapi_schema={"type": "object"})
    wrong = {
        "install tell-on-preemption": "SlackWebhook(url=…).save('alerts')",
        "install evaluate-after-training": "with a parameter `output`",
        "install tell": "choose from tell-on-preemption",
        "install --block alerts": "is not TYPE/NAME",
        "install --block slack-webhook/alerts": "no block 'slack-webhook/alerts'",
        "install --pool nowhere": "no work pool 'nowhere'",
        "install --deployment a/b": "no deployment 'a/b'",
        "install --deployment deaf/results": "has no parameter `output`",
    }
    said = shell(server, *wrong, status=2).splitlines()
    assert [words for line, words in zip(said, wrong.values(), strict=True) if words not in line] == []
    assert names(server) == before


def test_all_that_can_be_made_is_and_the_rest_says_what_it_needs(server: Server, place: Place) -> None:
    before = names(server)
    done = json.loads(shell(server, "install --dry-run --json"))
    assert {one["name"]: one["done"] for one in done["automations"]} == {
        "tell-on-preemption": "left out", "cancel-on-stall": "installed", "evaluate-after-training": "left out",
        "pause-without-quota": "installed",
    }  # fmt: skip
    assert done["dry_run"] and names(server) == before


def test_each_is_there_once_however_often_it_is_installed(server: Server, place: Place, installed: str) -> None:
    assert all(f"Installed automation '{name}'." in installed for name in NAMES)
    again = shell(server, "install cancel-on-stall", f"install pause-without-quota --pool {POOL}")
    assert again.count("is up to date already") == 2
    assert sorted(NAMES) == names(server)


@pytest.mark.long
def test_one_that_was_changed_or_doubled_is_mended_and_stays_switched_off(
    server: Server, place: Place, installed: str
) -> None:
    (one,) = [one for one in there(server) if one["name"] == CANCEL]
    double = {key: one[key] for key in ("name", "trigger")}
    server.ask("/automations/", **double, actions=[{"type": "do-nothing"}])
    for each in [each for each in there(server) if each["name"] == CANCEL]:
        server.change(f"/automations/{each['id']}", enabled=False)
    assert "Updated" in shell(server, "install cancel-on-stall")
    (left,) = [each for each in there(server) if each["name"] == CANCEL]
    assert [action["type"] for action in left["actions"]] == ["cancel-flow-run"] and not left["enabled"]
    server.change(f"/automations/{left['id']}", enabled=True)
    assert "up to date" in shell(server, "install cancel-on-stall")


def test_they_are_listed_with_their_pools(server: Server, installed: str) -> None:
    as_json, _, table = shell(server, "list --json", "list").partition("\n")
    rows = {row["name"]: row for row in json.loads(as_json)}
    assert rows["pause-without-quota"]["pool"] == POOL and rows["cancel-on-stall"]["pool"] is None
    assert all(row["installed"] and row["enabled"] for row in rows.values()) and len(rows) == 4
    assert f"pause-without-quota {POOL} on" in " ".join(table.split())


# Acting


@pytest.fixture(scope="module")
def preempted(server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job], installed: str) -> Job:
    """A job that is preempted once, and finishes."""
    job = new_job("automated")
    caller = orchestrators.start(job, program=PROGRAM, params={"steps": 20}, drills=["preempt@step=5"])
    assert caller.result()["attempts"] == [1, 2]
    return job


def test_a_preemption_is_told_to_whom_the_block_tells(place: Place, preempted: Job) -> None:
    heard = wait_for(lambda: place.listener.heard, "a notification")
    assert len(heard) == 1 and heard[0]["subject"] == f"Job {preempted.name} was preempted"
    assert heard[0]["body"].startswith("Attempt 1 on cpu-2x1 lost its slice.") and "Flow run: " in heard[0]["body"]


def test_what_has_finished_is_evaluated_once(server: Server, place: Place, preempted: Job) -> None:
    wanted = {"deployments": {"id": {"any_": [place.deployment]}}}
    (run,) = wait_for(lambda: server.ask("/flow_runs/filter", **wanted), "the evaluation")
    assert run["parameters"] == {"output": str(preempted.output), "attempt": 2}
    assert run["state"]["type"] == "SCHEDULED"


@pytest.mark.long
def test_a_run_that_stalls_is_cancelled(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job], installed: str
) -> None:
    job = new_job("stalling")
    caller = orchestrators.start(job, program=PROGRAM, params={"steps": 20, "hold_at": 3}, stall_timeout=3.0)
    assert "stopped" in caller.result()["message"]
    run = server.wait_for_run(job.name)
    assert server.wait_for_end(run)["type"] == "CANCELLED"
    states = server.ask(f"/flow_run_states/?flow_run_id={run['id']}")
    assert any((state["message"] or "").startswith("Cancelled by Automation") for state in states)


@pytest.mark.long
def test_so_is_a_run_of_a_pool_and_no_other_attempt_begins(server: Server, installed: str, tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.worker():
            run, job = await begun(scene)
            job.slices.show(ended(1, exit_code=ExitCode.STALLED))
            await scene.until(run, "Cancelled")
            result = await job.until_over()
        assert (result.state, [attempt.outcome for attempt in result.attempts]) == ("stopped", ["stalled"])
        messages = [state.message or "" for state in await scene.states(run)]
        assert any(message.startswith("Cancelled by Automation") for message in messages), messages

    play_story(server, tmp_path, story)


def test_a_pool_without_quota_is_paused(server: Server, installed: str, new_job: Callable[[str], Job]) -> None:
    """The flow `train` as a deployment of that pool, which asks for more hosts than this machine lends."""
    job = new_job("too-large")
    flow = server.ask("/flows/", name="train")["id"]
    here = [{"prefect.deployments.steps.set_working_directory": {"directory": str(job.folder)}}]
    made = server.ask(
        "/deployments/", name="too-large", flow_id=flow, work_pool_name=POOL, pull_steps=here,
        entrypoint="prefect_tpu.flows.train:train",
        parameters={"name": job.name, "program": PROGRAM, "accelerator": "cpu-64x1", "output": str(job.output.parent)},
    )  # fmt: skip
    worker = [*PREFECT, "worker", "start", "--pool", POOL]
    with running(worker, {**server.environment, **job.environment}, job.folder, "worker"):
        run = server.ask(f"/deployments/{made['id']}/create_flow_run", state={"type": "SCHEDULED"})
        assert "no_quota" in server.wait_for_end(run)["message"]
        wait_for(lambda: server.ask(f"/work_pools/{POOL}")["is_paused"], "that the pool is paused")
    (failed,) = wait_for(lambda: told_of_run(server, run), "what was told of the run")
    assert failed["event"] == "prefect-tpu.slice.failed" and failed["payload"]["kind"] == "no_quota"
    related = {one["prefect.resource.role"]: one["prefect.resource.id"] for one in failed["related"]}
    assert related["deployment"] == f"prefect.deployment.{made['id']}"
    assert related["work-pool"] == f"prefect.work-pool.{server.ask(f'/work_pools/{POOL}')['id']}"


# Removing; the last, for nothing acts any more


def test_only_ours_are_removed(server: Server, installed: str) -> None:
    (one,) = [one for one in there(server) if one["name"] == CANCEL]
    server.ask("/automations/", name=MINE, trigger=one["trigger"], actions=[{"type": "do-nothing"}])
    said = shell(
        server, "remove cancel-on-stall --dry-run", f"remove cancel-on-stall --pool {POOL}", f"remove --pool {POOL}"
    ).splitlines()
    assert said == [
        f"Would remove automation '{CANCEL}'.", "No such automation is installed.", f"Removed automation '{PAUSE}'.",
    ]  # fmt: skip
    assert sorted([TELL, CANCEL, EVALUATE, MINE]) == names(server)
    shell(server, "remove")
    assert names(server) == [MINE]
    server.delete(f"/automations/{there(server)[0]['id']}")
