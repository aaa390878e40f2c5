"""Task: carry one attempt out, from the start of its hosts to its verdict."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.infra.loss_picture import drawing_ahead
from prefect_tpu.tasks.progress_bar import showing_progress


@task(name="launch_training", cache_policy=NO_CACHE, persist_result=False)
def launch_training(driving: Driving) -> dict[str, Any] | None:
    """How the attempt ended; None where it never began. A failed attempt is news here, not an exception."""
    with showing_progress(driving) as log:
        driving.listen = drawing_ahead(driving.listen)
        ended = driving.launch()
        if ended is None:
            return None
        if ended.failure is not None:
            cause, advice = str(ended.failure).rstrip("."), ended.failure.advice
            log.warning("Attempt %d ended: %s. %s", ended.number, cause, advice)
        return ended.to_json()
