"""Task: is there an offer among the preferred ones that the platform allows at all?"""

from __future__ import annotations

from anyio.from_thread import start_blocking_portal
from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.errors import JobFailed
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.allowed import ask_all, refusal, told
from prefect_tpu.tasks.failing import failing_in_words


@task(name="check_quota", task_run_name="check_quota", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def check_quota(job: SliceJob, output: str) -> None:
    """Raises `JobFailed` (no_quota), naming what is missing for each offer, where none can ever be had.

    What is not known, or is only used up for now, keeps no job from being tried: quota says nothing of capacity.
    """
    with start_blocking_portal() as portal:
        found = portal.call(ask_all, open_backend(job.backend), job, output)
    for line in told(found):
        get_run_logger().info("%s", line)
    if (why := refusal(found)) is not None:
        raise JobFailed(job.name, why)
