"""Task: lay down the program's code and the job's data."""

from __future__ import annotations

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.tasks.failing import failing_in_words


@task(name="stage_data", task_run_name="stage_data", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def stage_data(request: Request) -> SliceJob:
    """The job with everything it needs in place; unchanged data is not copied again."""
    copied: list[int] = []
    job = prepare(request, copied.append)
    log = get_run_logger()
    log.info("Job %s: %s on %s", job.name, job.program.target, " or ".join(job.accelerators))
    if request.data:
        log.info("Data %s: %.1f MiB copied", ", ".join(request.data), sum(copied) / 2**20)
    return job
