"""Where do flows lie that a pool's runs bring along, and what they return? In the pool's output, unless it says else.

Prefect knows steps that carry bundles to and from clouds, each with a package of its own. Ours know every output, a
folder of this machine too, so a pool needs nothing more to run decorated flows.
"""

from __future__ import annotations

import os
import re
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


def our_steps(output: str) -> Steps:
    """Of ours, which need no package. output: of the pool; empty for the usual one of whatever machine it is."""
    place = {"output": output} if output else {}
    return Steps(upload={UPLOAD: {**place, "launcher": [*PYTHON]}}, execute={EXECUTE: {**place, "launcher": [*PYTHON]}})


async def steps_of(client: PrefectClient, pool: WorkPool) -> Steps:
    """Those of the pool. A pool that has none gets ours, for good.

    Raises `UsageError` where hosts would not reach the pool's output.
    """
    kept = pool.storage_configuration
    if kept.bundle_upload_step is not None and kept.bundle_execution_step is not None:
        return Steps(upload=kept.bundle_upload_step, execute=kept.bundle_execution_step)
    said = said_of(pool.base_job_template)
    output = await output_of(said)
    if _is_in_a_cluster(said) and not output.startswith(BUCKET):
        raise UsageError(
            f"Work pool {pool.name!r} runs flows in a cluster, whose pods do not reach {output or 'this machine'!r}, so"
            " a flow cannot be sent to them: give the pool an output that they reach, as by `prefect-tpu pool update"
            f" {shlex.quote(pool.name)} --output gs://BUCKET/FOLDER`, or configure its storage"
            " (`prefect work-pool storage configure`)."
        )
    found = our_steps(output)
    steps = {"bundle_upload_step": found.upload, "bundle_execution_step": found.execute}
    configured = kept.model_copy(update=steps)
    await client.update_work_pool(pool.name, WorkPoolUpdate(storage_configuration=configured))
    return found


async def results_of(client: PrefectClient, pool: WorkPool) -> WritableFileSystem | Path:
    """Where what flows return is kept, so that whoever calls them can read it. In a bucket, a saved block for good."""
    kept = pool.storage_configuration
    if kept.default_result_storage_block_id is not None:
        return await aresolve_result_storage(kept.default_result_storage_block_id)
    output = await output_of(said_of(pool.base_job_template))
    if not output.startswith(BUCKET):
        return _local(output or job_output(os.environ))
    storage = RemoteFileSystem(basepath=f"{output.rstrip('/')}/{layout.RESULTS_FOLDER}")
    # A result names the block by which it is read.
    saved: Any = storage.save(f"{_slug(pool.name)}-results", overwrite=True)
    configured = kept.model_copy(update={"default_result_storage_block_id": await saved})
    await client.update_work_pool(pool.name, WorkPoolUpdate(storage_configuration=configured))
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


def _slug(name: str) -> str:
    """As names of saved blocks may be."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _local(output: str) -> Path:
    return LocalStorage(output.removeprefix("file://")).root / layout.RESULTS_FOLDER


def _is_in_a_cluster(said: Mapping[str, Any]) -> bool:
    backend = said.get("backend") or ""
    return backend in ("jobset", "pathways") or (not backend and bool(said.get("image") or said.get("cluster")))
