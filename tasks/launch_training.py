"""Task: carry one attempt out, from the start of its hosts to its verdict."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.infra.loss_picture import drawing_ahead
from prefect_tpu.tasks.progress_bar import showing_progress
from prefect_tpu.tasks.reporting import Log


@task(name="launch_training", cache_policy=NO_CACHE, persist_result=False)
def launch_training(driving: Driving) -> dict[str, Any] | None:
    """How the attempt ended; None where it never began. A failed attempt is news here, not an exception."""
    with showing_progress(driving) as log:
        driving.listen = drawing_ahead(driving.listen)
        ended = driving.launch()
        if ended is None:
            return None
        if ended.failure is not None:
            _tell(log, ended.number, ended.failure)
        return ended.to_json()


def _tell(log: Log, number: int, failure: Failure) -> None:
    """One that was stopped went as somebody wanted, who knows what to do: the run's own end says it."""
    cause = str(failure).rstrip(".")
    if failure.kind is FailureKind.STOPPED:
        log.info("Attempt %d ended: %s.", number, cause)
    else:
        log.warning("Attempt %d ended: %s. %s", number, cause, failure.advice)
