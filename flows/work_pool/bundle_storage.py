"""Where do flows lie that a pool's runs bring along, and what they return? In the pool's output, unless it says else.

Prefect knows steps that carry bundles to and from clouds, each with a package of its own. Ours know every output, a
folder of this machine too, so a pool needs nothing more to run decorated flows.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.objects import WorkPool
from prefect.filesystems import RemoteFileSystem, WritableFileSystem
from prefect.results import aresolve_result_storage

from prefect_tpu.flows.saved import BLOCK, load
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.places import job_output
from prefect_tpu.infra.storage import BUCKET, LocalStorage

UPLOAD, EXECUTE = "prefect_tpu.infra.launcher.bundle", "prefect_tpu.infra.host.bundle"
PYTHON = ("python",)  # on a host, the interpreter of its plan
Step = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What carries a bundle into storage, and what fetches and runs it there; as Prefect keeps them of a pool."""

    upload: Step
    execute: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What counts for a run: the pool's defaults, and what the flow says itself.

    said: variable → value.
    output: the folder of all jobs, also where nobody says one; then this machine's usual one.
    """

    said: dict[str, Any]
    output: str

    @property
    def is_in_a_cluster(self) -> bool:
        """Whether its hosts are pods."""
        backend = self.said.get("backend") or ""
        return backend in ("jobset", "pathways") or (not backend and any(map(self.said.get, ("image", "cluster"))))


async def settings_of(pool: WorkPool, job_variables: Mapping[str, Any]) -> Settings:
    """Of a flow that says these variables."""
    said = {**said_of(pool.base_job_template), **job_variables}
    return Settings(said=said, output=await output_of(said) or job_output(os.environ))


def our_steps(output: str) -> Steps:
    """Of ours, which need no package. output: of the pool; empty for the usual one of whatever machine it is."""
    place = {"output": output} if output else {}
    return Steps(upload={UPLOAD: {**place, "launcher": [*PYTHON]}}, execute={EXECUTE: {**place, "launcher": [*PYTHON]}})


async def steps_of(client: PrefectClient, pool: WorkPool, settings: Settings) -> Steps:
    """Those of the pool; a pool that has none gets ours, for good. Ours use the output of the run.

    Raises `UsageError` where hosts would not reach that.
    """
    kept = pool.storage_configuration
    upload, execute = kept.bundle_upload_step, kept.bundle_execution_step
    if upload is None or execute is None:
        found = our_steps(await output_of(said_of(pool.base_job_template)))
        upload, execute = found.upload, found.execute
        steps = {"bundle_upload_step": upload, "bundle_execution_step": execute}
        configured = WorkPoolUpdate(storage_configuration=kept.model_copy(update=steps))
        await client.update_work_pool(pool.name, configured)
    if [*upload, *execute] != [UPLOAD, EXECUTE]:
        return Steps(upload=upload, execute=execute)
    if settings.is_in_a_cluster and not settings.output.startswith(BUCKET):
        raise UsageError(
            f"The flow runs in a cluster, whose pods do not reach {settings.output!r}, so it cannot be sent to them:"
            " give it an output that they reach, as by `prefect-tpu pool update"
            f" {shlex.quote(pool.name)} --output gs://BUCKET/FOLDER`, or configure the pool's storage"
            " (`prefect work-pool storage configure`)."
        )
    return our_steps(settings.output)


async def results_of(pool: WorkPool, settings: Settings) -> WritableFileSystem | Path:
    """Where what flows return is kept, so that whoever calls them can read it."""
    kept = pool.storage_configuration
    if kept.default_result_storage_block_id is not None:
        return await aresolve_result_storage(kept.default_result_storage_block_id)
    if not settings.output.startswith(BUCKET):
        return LocalStorage(settings.output.removeprefix("file://")).root / layout.RESULTS_FOLDER
    place = f"{settings.output.rstrip('/')}/{layout.RESULTS_FOLDER}"
    storage = RemoteFileSystem(basepath=place)
    # A result names the block by which it is read, so there is one for each place.
    saving: Any = storage.save(f"prefect-tpu-{hashlib.sha256(place.encode()).hexdigest()[:12]}", overwrite=True)
    await saving
    return storage


async def output_of(said: Mapping[str, Any]) -> str:
    """Of these variables; empty where they say none, nor the saved cluster that they name."""
    output, cluster = str(said.get("output") or ""), str(said.get("cluster") or "")
    if output or not cluster.startswith(BLOCK):
        return output
    return (await anyio.to_thread.run_sync(load, cluster.removeprefix(BLOCK))).output


def said_of(template: Mapping[str, Any]) -> dict[str, Any]:
    """Variable → what the pool gives it."""
    properties = template.get("variables", {}).get("properties", {})
    return {name: field["default"] for name, field in properties.items() if "default" in field}
