"""Slices of a Kubernetes cluster that one program drives alone: Pathways, as one JobSet per attempt.

Everything is as with any JobSet, but for what the JobSet is made of, which `gcp/pathways_manifests` says, and that its
one host is a head with workers, which `jobset_helpers` knows. What it cannot carry out is refused here.
"""

from __future__ import annotations

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.base import Attempt, Held, Refused
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.pathways_checks import check_job, unknown_to_pathways
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.state import Offer


class PathwaysBackend(JobSetBackend):
    """A job has one host, which sees the chips of all its slices."""

    def check(self, job: SliceJob, output: str) -> None:
        super().check(job, output)
        check_job(job, output)

    def imagine(self, attempt: Attempt, offer: Offer) -> Held | Refused:
        shape = resolve(offer.accelerator, dialect=attempt.job.dialect)
        why = unknown_to_pathways(offer.accelerator, shape)
        return Refused(reason=why) if why else super().imagine(attempt, offer)
