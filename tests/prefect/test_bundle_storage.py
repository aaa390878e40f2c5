"""Where flows of a pool travel through, and where what they return is kept: set up once, by whoever needs it first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import WorkPool
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect_server import Server

from prefect_tpu.flows.work_pool.bundle_storage import Steps, our_steps, results_of, settings_of, steps_of
from prefect_tpu.flows.work_pool.template import base_job_template
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
T = TypeVar("T")


@pytest.fixture
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of this machine."""
    monkeypatch.setenv(Env.OUTPUT, str(tmp_path))
    return tmp_path


def asked(server: Server, name: str, question: Callable[[PrefectClient, WorkPool], Awaitable[T]]) -> T:
    """The answer about a pool, read anew."""

    async def ask() -> T:
        async with get_client() as client:
            return await question(client, await client.read_work_pool(name))

    with temporary_settings({PREFECT_API_URL: server.environment["PREFECT_API_URL"]}):
        return asyncio.run(ask())


def new_pool(server: Server, **defaults: Any) -> str:
    template, name = base_job_template(), f"Of Tests {uuid4().hex[:8]}"
    for variable, value in defaults.items():
        template["variables"]["properties"][variable]["default"] = value
    server.ask("/work_pools/", name=name, type="tpu-slice", base_job_template=template)
    return name


def kept(server: Server, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.ask(f"/work_pools/{name}")["storage_configuration"]
    return found


@pytest.mark.parametrize("output", ["", "/jobs", "gs://bucket/jobs"])
def test_a_pool_without_storage_gets_its_output_for_it(server: Server, output: str, usual: Path) -> None:
    name = new_pool(server, output=output)
    assert asked(server, name, steps) == our_steps(output or str(usual))
    assert kept(server, name)["bundle_upload_step"] == our_steps(output).upload
    assert kept(server, name)["bundle_execution_step"] == our_steps(output).execute
    assert asked(server, name, steps) == our_steps(output or str(usual))


def test_a_flow_with_an_output_of_its_own_goes_through_that(server: Server) -> None:
    name = new_pool(server, output="/jobs")
    assert asked(server, name, lambda c, p: steps(c, p, output="/other")) == our_steps("/other")
    assert kept(server, name)["bundle_upload_step"] == our_steps("/jobs").upload


def test_storage_that_somebody_configured_stays(server: Server) -> None:
    name, own = new_pool(server), {"a_package.upload": {"bucket": "b"}}
    configured = {"bundle_upload_step": own, "bundle_execution_step": {"a_package.execute": {"bucket": "b"}}}
    server.change(f"/work_pools/{name}", storage_configuration=configured)
    assert asked(server, name, steps).upload == own


@pytest.mark.parametrize("said", [{"backend": "jobset"}, {"image": "image:1"}, {"cluster": "a-context"}])
@pytest.mark.parametrize("output", ["", "/jobs"])
def test_what_pods_would_not_reach_is_refused(server: Server, said: dict[str, str], output: str) -> None:
    name = new_pool(server, output=output)
    with pytest.raises(UsageError, match="whose pods do not reach") as caught:
        asked(server, name, lambda c, p: steps(c, p, **said))
    assert f"prefect-tpu pool update '{name}' --output gs://" in str(caught.value)
    assert asked(server, name, lambda c, p: steps(c, p, **said, output="gs://b/j")) == our_steps("gs://b/j")


def test_results_lie_in_a_folder_of_the_output(server: Server, usual: Path) -> None:
    assert asked(server, new_pool(server), results) == usual / layout.RESULTS_FOLDER
    assert asked(server, new_pool(server, output="file:///jobs"), results) == Path("/jobs", layout.RESULTS_FOLDER)


def test_results_in_a_bucket_are_found_by_a_saved_block(server: Server) -> None:
    name = new_pool(server, output="gs://bucket/jobs/")
    found = [asked(server, name, results) for _ in range(2)]  # made, then found
    assert [storage.basepath for storage in found] == [f"gs://bucket/jobs/{layout.RESULTS_FOLDER}"] * 2
    first, second = (storage._block_document_id for storage in found)
    assert first == second is not None


async def steps(client: PrefectClient, pool: WorkPool, **variables: str) -> Steps:
    return await steps_of(client, pool, await settings_of(pool, variables))


async def results(client: PrefectClient, pool: WorkPool) -> Any:
    return await results_of(pool, await settings_of(pool, {}))
