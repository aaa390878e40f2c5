"""Task: bring the job's end home, with a picture and a table of its attempts."""

from __future__ import annotations

from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher.wording import counted
from prefect_tpu.infra.loss_picture import draw_loss
from prefect_tpu.infra.summary import markdown


@task(name="collect_results", task_run_name="collect_results", cache_policy=NO_CACHE, persist_result=False)
def collect_results(result: JobResult) -> dict[str, Any]:
    """The result as JSON; the same table of attempts goes to the run's artifacts."""
    picture = draw_loss(result)
    table = markdown(result, picture.png if picture else None)
    create_markdown_artifact(key=f"attempts-{result.job}", markdown=table, description=f"Job {result.job}")
    count = counted(len(result.attempts), "attempt")
    get_run_logger().info("Job %s %s after %s: %s", result.job, result.state, count, result.output)
    return result.to_json()
