"""Task: which candidate of the model is to be trained, if any?"""

from __future__ import annotations

import time

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.models import beginning
from prefect_tpu.infra.models.beginning import Wish
from prefect_tpu.infra.models.records import Candidate
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.tasks.failing import failing_in_words


@task(name="begin_candidate", task_run_name="begin_candidate", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def begin_candidate(wish: Wish) -> Candidate | None:
    """The candidate to bring to its end, new or left behind by an earlier run; None where nothing calls for one."""
    log, now = get_run_logger(), time.time()
    candidate = beginning.begin(Registry(wish.output, wish.model), wish, beginning.find(wish), now)
    if candidate is None:
        log.info("Nothing calls for another candidate of model %s.", wish.model)
        return None
    what = "Candidate" if candidate.began == now else "Going on with candidate"
    log.info("%s %d of model %s, because %s.", what, candidate.number, wish.model, candidate.reason)
    log.info("It starts with %s.", candidate.start_from or "nothing")
    return candidate
