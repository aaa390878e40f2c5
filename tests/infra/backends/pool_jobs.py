"""Jobs whose node pools are made for them, in clusters of a fake of Google's API."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.backends.base import Attempt
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.offers import offers_of
from prefect_tpu.infra.state import Offer

OUTPUT = "gs://bucket/jobs/digits"


def attempt(*clusters: str, number: int = 1, accelerator: str = "v6e-16", slices: int = 1, **pods: Any) -> Attempt:
    """One of a job in these clusters, in order of preference."""
    settings = {"image": "i", "cluster": clusters[0], "fallback_clusters": clusters[1:], "make_pools": True, **pods}
    job = SliceJob(
        name="digits",
        program=Program(kind="module", target="m:f"),
        accelerators=(accelerator,),
        backend="jobset",
        slices=slices,
        pods=PodSettings(**settings),
    )
    return Attempt(job=job, number=number, output=OUTPUT)


def first(asked: Attempt) -> Offer:
    """The offer that the job likes best."""
    return offers_of(asked.job)[0]
