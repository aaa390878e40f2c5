"""Task: is there an accelerator among the preferred ones that the platform could give at all?"""

from __future__ import annotations

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.errors import FailureKind, JobFailed
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.failures import failure
from prefect_tpu.infra.policy.quota import missing
from prefect_tpu.infra.state import Offer
from prefect_tpu.tasks.failing import failing_in_words


@task(name="check_quota", task_run_name="check_quota", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def check_quota(job: SliceJob, output: str) -> None:
    """Raises `JobFailed` (no_quota), naming what is missing for each accelerator, where none fits."""
    log, backend, short = get_run_logger(), open_backend(job.backend), []
    for name in job.accelerators:
        limits = backend.limits(job, Offer(accelerator=name), output)
        lacking = missing(limits)
        if lacking is None:
            log.info("%s fits: %s", name, "; ".join(map(str, limits)))
            return
        short.append(f"{name}: {lacking}")
    raise JobFailed(job.name, failure(FailureKind.NO_QUOTA, "No accelerator fits. " + " ".join(short), evidence=short))
