"""How do we know our own objects in a cluster? By labels, whose names are said here alone."""

from __future__ import annotations

import hashlib

from prefect_tpu.infra.gcp.resources import with_labels
from prefect_tpu.infra.plan import HostPlan

MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "prefect-tpu"
JOB = f"{OURS}/job"
ATTEMPT = f"{OURS}/attempt"
PLAN = f"{OURS}/plan"  # the hash of the plan: another output may have a job of the same name
LIFETIME = f"{OURS}/lifetime-seconds"  # after its creation, when whatever is left of an object may be deleted
ARCHIVE = f"{OURS}/host-archive"  # the hash of what hosts run, which all jobs of a namespace share
OUTPUT = f"{OURS}/output"  # an annotation, for people and for lists of jobs: URLs are no label values
ACCELERATOR = f"{OURS}/accelerator"  # an annotation too
TOLD_TO_STOP = f"{OURS}/told-to-stop"  # an annotation: its hosts were told to save and leave by us, not by a person

IDENTITY = (MANAGED_BY, JOB, ATTEMPT, PLAN)  # equal for an object to be this attempt's
ARCHIVE_IDENTITY = (MANAGED_BY, ARCHIVE)
_HASH_DIGITS = 32  # a label value has room for 63 characters, one less than SHA-256


def short_hash(data: bytes) -> str:
    """A hash that fits into a label and a name."""
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]


def attempt_labels(plan: HostPlan) -> dict[str, str]:
    """Of every object of an attempt: of which job, which attempt, and of which plan exactly."""
    return {
        MANAGED_BY: OURS,
        JOB: plan.job,
        ATTEMPT: str(plan.attempt),
        PLAN: short_hash(plan.to_json()),
    }


def archive_labels(archive: bytes) -> dict[str, str]:
    return {MANAGED_BY: OURS, ARCHIVE: short_hash(archive)}


def attempt_selector(plan: HostPlan) -> str:
    """All objects of an attempt."""
    return with_labels(attempt_labels(plan))
