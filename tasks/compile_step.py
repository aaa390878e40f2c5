"""Task: would the program's step compile on the slices that are asked for, and fit?"""

from __future__ import annotations

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.compiled_ahead import compile_ahead, refusal
from prefect_tpu.infra.compiler.render import markdown
from prefect_tpu.infra.request import Request
from prefect_tpu.tasks.failing import failing_in_words


@task(name="compile_step", task_run_name="compile_step", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def compile_step(request: Request) -> None:
    """Raises `JobFailed`, with what to change, where it would not. What was found out is an artifact of the run."""
    log = get_run_logger()
    ahead = compile_ahead(request, lambda line: log.info("%s", line))
    if ahead.rows:
        create_markdown_artifact(
            key=f"compile-{request.name}", markdown=markdown(ahead.rows), description=f"Step of job {request.name}"
        )
    if (why := refusal(request.name, ahead)) is not None:
        raise why
