"""Task: show what a sweep has found, with a table and a picture of its trials."""

from __future__ import annotations

from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.sweep.report import draw, markdown, rows
from prefect_tpu.infra.sweep.result import SweepResult


@task(name="collect_trials", task_run_name="collect_trials", cache_policy=NO_CACHE, persist_result=False)
def collect_trials(result: SweepResult) -> dict[str, Any]:
    """The result as JSON; the table and the picture go to the run's artifacts."""
    about = f"Sweep {result.sweep}"
    create_table_artifact(table=rows(result), key=f"trials-{result.sweep}", description=about)
    create_markdown_artifact(markdown(result, draw(result)), key=f"sweep-{result.sweep}", description=about)
    get_run_logger().info("Trial %d is the best: %s %g in %s", result.best, result.metric, result.value, result.output)
    return result.to_json()
