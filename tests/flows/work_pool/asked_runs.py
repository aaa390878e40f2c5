"""Configurations as Prefect makes them for one run, without a server."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_KEY, PREFECT_API_URL, PREFECT_HOME, temporary_settings

from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration

RUN = UUID("0f3b6e1a-9c55-4d1e-8f00-123456789abc")
JOB = "t-123456789abc"
KEY = "a-key-that-nobody-may-see"


def configured(**said: Any) -> TpuSliceConfiguration:
    """What came out of a pool, a deployment and a run that say this, on a worker with a key and a home of its own."""
    made = TpuSliceConfiguration(**said)
    made.prepare_for_flow_run(FlowRun(id=RUN, flow_id=UUID(int=7), name="eager-otter"))
    return made


def worker_settings() -> Any:
    """A worker's own: where its server is, what it is let in with, and where it keeps its files."""
    return temporary_settings(
        {PREFECT_API_URL: "http://server:4200/api", PREFECT_API_KEY: KEY, PREFECT_HOME: "/of/the/worker"}
    )
