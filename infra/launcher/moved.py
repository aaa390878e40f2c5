"""Did the live attempt begin in another folder, of which this one is a copy or the new place?"""

from __future__ import annotations

import os
import time

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher import checkpoints, history
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.storage import Storage, local_folder


def end_moved(storage: Storage) -> None:
    """Give an attempt that began elsewhere its outcome: its hosts write there, and are not ours to follow or to end."""
    numbers = history.attempt_numbers(storage)
    if not numbers or history.read_outcome(storage, numbers[-1]) is not None:
        return
    plan = history.read_plan(storage, numbers[-1])
    if not _is_here(plan.output, storage):
        history.write_outcome(storage, _lost(storage, plan))


def _is_here(output: str, storage: Storage) -> bool:
    """The same folder, by whatever path it is reached; what lies in a bucket is reached by one name."""
    folder = local_folder(storage)
    if folder is None:
        return output == storage.url
    try:
        return os.path.samefile(output, folder)
    except OSError:
        return False


def _lost(storage: Storage, plan: HostPlan) -> AttemptSummary:
    message = f"The job's folder came here from {plan.output} while the attempt was under way there."
    return AttemptSummary(
        number=plan.attempt,
        accelerator=plan.accelerator,
        started=Ledger(storage).submitted(plan.attempt).started,
        ended=time.time(),
        outcome=FailureKind.HOST_LOST.value,
        failure=failure(FailureKind.HOST_LOST, message),
        saved_step=checkpoints.furthest(storage, plan),
    )
