"""Pools made by the shell, by older versions and by hand: shown, brought up to date, and served; what is secret stays
so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect_server import PATIENCE, PREFECT, Server, running, wait_for

from prefect_tpu.flows.work_pool.template import MARK, base_job_template
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]

FLOWS = Path(__file__).parent / "contract_flows.py"
COMMAND = Path(sys.executable).with_name("prefect-tpu")
KEY, TOKEN = "a-key-that-nobody-may-see", "a-token-that-nobody-may-see"
DEPLOY = f"""
import sys
from prefect import flow
made = flow.from_source(source={str(FLOWS.parent)!r}, entrypoint="{FLOWS.name}:work")
print(made.deploy("by-python", work_pool_name=sys.argv[1], image="trainer:1", build=False, push=False))
"""
BY_HAND: dict[str, Any] = {
    "job_configuration": {"command": "{{ command }}", "env": "{{ env }}", "accelerator": "cpu-2x1"},
    "variables": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "env": {"type": "object", "default": {}}},
    },
}


def shell(server: Server, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [COMMAND, "pool", *words], env=dict(server.environment), cwd=server.folder,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def template_of(server: Server, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.ask(f"/work_pools/{name}")["base_job_template"]
    return found


def test_a_pool_is_made_once_with_what_its_runs_have(server: Server) -> None:
    words = ("create", "made", "--backend", "local", "--default", "max_preemptions=3")
    assert "Would create" in shell(server, *words, "--dry-run")
    assert "prefect worker start --type tpu-slice --pool made" in shell(server, *words)
    assert template_of(server, "made") == base_job_template({"backend": "local", "max_preemptions": 3})
    assert "pool update made" in shell(server, *words, status=2)
    shell(server, "create", "refused", "--backend", "local", "--image", "trainer:1", status=2)
    assert server.client.get("/work_pools/refused").status_code == 404


def test_prefect_s_own_command_makes_the_same_pool(server: Server) -> None:
    server.command("work-pool", "create", "by-prefect", "--type", "tpu-slice")
    assert template_of(server, "by-prefect") == base_job_template()


@pytest.mark.long
def test_an_older_pool_is_brought_up_to_date_with_what_a_person_changed(server: Server) -> None:
    old = base_job_template({"image": "trainer:1"})
    del old["variables"]["properties"]["zones"], old["job_configuration"]["zones"]
    old["variables"][MARK]["version"] = "0.0.9"
    server.ask("/work_pools/", name="older", type="tpu-slice", base_job_template=old)
    seen = json.loads(shell(server, "show", "older", "--json"))
    assert seen["template"] == {"made_by": "0.0.9", "is_current": False} and seen["workers"] == []
    assert {(one["what"], one["name"]) for one in seen["changes"]} == {("added", "zones"), ("kept", "image")}
    shell(server, "update", "older", "--dry-run")
    assert template_of(server, "older") == old
    assert json.loads(shell(server, "update", "older", "--json"))["updated"] is True
    assert template_of(server, "older") == base_job_template({"image": "trainer:1"})
    assert json.loads(shell(server, "update", "older", "--json"))["updated"] is False


def test_pools_that_are_not_there_or_of_others_are_named(server: Server) -> None:
    assert "pool create nowhere" in shell(server, "show", "nowhere", status=2)
    server.ask("/work_pools/", name="of-processes", type="process", base_job_template={})
    assert "of type 'process'" in shell(server, "update", "of-processes", status=2)


def test_python_deploys_to_it_with_an_image(server: Server) -> None:
    server.ask("/work_pools/", name="deployed-to", type="tpu-slice", base_job_template=base_job_template())
    done = subprocess.run(
        [sys.executable, "-P", "-c", DEPLOY, "deployed-to"], env=dict(server.environment), cwd=server.folder,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert server.ask("/deployments/name/work/by-python")["job_variables"]["image"] == "trainer:1"


# A pool whose template was made by hand, and a worker with a key


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("by-hand")
    own = {"XDG_DATA_HOME": str(folder / "data"), Env.OUTPUT: str(folder / "jobs"), "PREFECT_API_KEY": KEY}
    server.ask("/work_pools/", name="by-hand", type="tpu-slice", base_job_template=BY_HAND)
    kind = server.ask("/block_types/slug/secret")["id"]
    (schema,) = server.ask("/block_schemas/filter", block_schemas={"block_type_id": {"any_": [kind]}})[:1]
    server.ask(
        "/block_documents/", name="token", data={"value": TOKEN}, block_type_id=kind, block_schema_id=schema["id"]
    )
    worker = [*PREFECT, "worker", "start", "--type", "tpu-slice", "--pool", "by-hand", "--name", "keyed"]
    with running(worker, {**server.environment, **own}, folder, "worker"):
        yield folder


@pytest.fixture(scope="module")
def run(server: Server, place: Path) -> dict[str, Any]:
    """One that has ended."""
    flow = server.ask("/flows/", name="work")["id"]
    made = server.ask(
        "/deployments/", name="keyed", flow_id=flow, work_pool_name="by-hand", path=str(FLOWS.parent),
        entrypoint=f"{FLOWS.name}:work", parameters={"folder": str(place)},
        job_variables={"env": {"WORD": "{{ prefect.blocks.secret.token }}"}},
    )  # fmt: skip
    begun: dict[str, Any] = server.ask(f"/deployments/{made['id']}/create_flow_run", state={"type": "SCHEDULED"})
    state = server.wait_for_end(begun)
    assert state["type"] == "COMPLETED", (state, (place / "worker.log").read_text()[-4000:])
    ended: dict[str, Any] = server.ask(f"/flow_runs/{begun['id']}")
    return ended


def test_a_flow_has_what_a_block_says_though_its_template_was_made_by_hand(place: Path, run: dict[str, Any]) -> None:
    assert (place / run["name"] / "environment").read_text() == TOKEN


def test_what_is_secret_is_in_nothing_that_others_can_read(place: Path, run: dict[str, Any], server: Server) -> None:
    job = Path(run["infrastructure_pid"])
    wait_for((job / layout.RESULT).exists, "the end of the job")
    readable = [path for path in job.rglob("*") if path.is_file() and path.name != layout.SECRETS]
    assert {layout.JOB, "plan.json", layout.ASKED_BY} <= {path.name for path in readable}
    said = [path.read_bytes() for path in readable] + [json.dumps(run).encode(), (place / "worker.log").read_bytes()]
    assert not [text for text in said if KEY.encode() in text or TOKEN.encode() in text]


def test_a_worker_and_its_last_sign_of_life_are_shown(server: Server, run: dict[str, Any]) -> None:
    seen = json.loads(shell(server, "show", "by-hand", "--json"))
    (worker,) = seen["workers"]
    assert (worker["name"], worker["status"]) == ("keyed", "online") and worker["last_heartbeat"]
    assert seen["template"] == {"made_by": None, "is_current": False}
    assert "Worker 'keyed', online" in shell(server, "show", "by-hand")
