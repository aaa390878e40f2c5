"""A saved cluster on a real server: registered, saved, shown as a form, and named by jobs in every way in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prefect_server import PATIENCE, Server

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

SAVE = """
from prefect_tpu.blocks import GKECluster
GKECluster(project="my-project", location="us-east5-b", cluster="training", namespace="ml", image="trainer:1",
           output="file:///jobs", queue="tpus").save("my-cluster", overwrite=True)
print(GKECluster.load("my-cluster").address())
"""
ASK = """
import asyncio
from prefect_tpu.flows.asking import ask
def show(**options):
    asked = ask("train", "sleep", "v6e-16", {"arguments": ["1"], **options}).request
    pods = asked.settings["pods"]
    print(asked.output, pods.cluster, pods.namespace, pods.image, pods.queue)
show(cluster="block:my-cluster", name="a")
show(cluster="block:my-cluster", name="a", image="trainer:2", output="file:///other", pods={"queue": "mine"})
async def in_a_notebook():
    show(cluster="block:my-cluster", name="a")
asyncio.run(in_a_notebook())
"""
FALL_BACK = """
from prefect_tpu.blocks import GKECluster
from prefect_tpu.flows.asking import ask
from prefect_tpu.infra.errors import UsageError
GKECluster(image="trainer:1").save("at-hand", overwrite=True)
def clusters(*others):
    options = {"arguments": ["1"], "name": "a", "image": "i", "output": "file:///jobs", "cluster": "first"}
    asked = ask("train", "sleep", "v6e-16", {**options, "pods": {"fallback_clusters": list(others)}})
    pods = asked.request.settings["pods"]
    print(pods.cluster, *pods.fallback_clusters, pods.image, pods.namespace)
clusters("second", "block:my-cluster")
try:
    clusters("block:at-hand")
except UsageError as exc:
    print(exc)
"""
MISSING = """
from prefect_tpu.flows.asking import ask
ask("train", "sleep", "v6e-16", {"cluster": "block:no-such"})
"""


def python(server: Server, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *words], env=dict(server.environment), cwd=server.folder,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def saved(server: Server) -> str:
    done = python(server, SAVE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_loaded_as_it_was_saved(saved: str) -> None:
    assert saved == "gke://my-project/us-east5-b/training"


def test_the_server_shows_a_form_that_explains_every_field(server: Server, saved: str) -> None:
    kind = server.ask("/block_types/slug/gke-cluster")
    assert (kind["name"], kind["logo_url"]) == ("GKE Cluster", None) and kind["description"].endswith(".")
    (schema,) = server.ask("/block_schemas/filter", block_schemas={"block_type_id": {"any_": [kind["id"]]}})
    fields = schema["fields"]["properties"]
    assert set(fields) >= {"project", "location", "cluster", "context", "namespace", "image", "queue", "output"}
    assert all(field["description"] for field in fields.values())
    assert schema["fields"]["secret_fields"] == []


def test_the_block_is_there_without_importing_it(server: Server, saved: str) -> None:
    """By the entry point: what the UI offers where nobody registered anything by hand."""
    assert "gke-cluster" in server.command("block", "type", "ls")
    found = python(
        server, "import prefect\nfrom prefect.blocks.core import Block\nprint(Block.load('gke-cluster/my-cluster'))"
    )
    assert "training" in found.stdout, found.stderr


def test_a_python_call_takes_what_the_block_says_and_its_own_words_count_more(server: Server, saved: str) -> None:
    done = python(server, ASK)
    assert done.returncode == 0, done.stderr
    plain = f"file:///jobs {saved} ml trainer:1 tpus"
    assert done.stdout.splitlines() == [plain, f"file:///other {saved} ml trainer:2 mine", plain]


def test_of_one_that_is_only_fallen_back_on_the_address_alone_is_taken(server: Server, saved: str) -> None:
    done = python(server, FALL_BACK)
    assert done.returncode == 0, done.stderr
    told, refused = done.stdout.splitlines()
    assert told == f"first second {saved} i default"
    assert refused.startswith("The saved cluster 'at-hand' names no cluster, so it cannot be fallen back on")


def test_a_block_that_is_not_there_is_named(server: Server) -> None:
    done = python(server, MISSING)
    assert "UsageError" in done.stderr and "There is no saved cluster 'no-such'" in done.stderr


def test_a_server_that_does_not_answer_is_named(server: Server, tmp_path: Path) -> None:
    environment = {**server.environment, "PREFECT_API_URL": "http://127.0.0.1:9/api", "PREFECT_CLIENT_MAX_RETRIES": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", MISSING], env=environment, cwd=tmp_path,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert "PlatformError" in done.stderr and "cannot be loaded" in done.stderr


def test_the_shell_takes_the_same_word(server: Server, saved: str) -> None:
    words = ("render", "-a", "v6e-16", "--cluster", "block:my-cluster", "--name", "a", "--json", "sleep", "--", "1")
    done = python(server, "from prefect_tpu.flows.cli import main; main()", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"namespace": "ml"' in done.stdout and "trainer:1" in done.stdout
