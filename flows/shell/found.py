"""Which job is meant by a name on the command line?"""

from __future__ import annotations

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.history import read_job
from prefect_tpu.infra.launcher.jobs import find_job
from prefect_tpu.infra.request import default_output
from prefect_tpu.infra.storage import LocalStorage


def found(name: str, output: str | None) -> tuple[LocalStorage, SliceJob]:
    """Its folder and what was asked for. Raises `NoSuchJob`, with the nearest name."""
    storage = find_job(output or default_output(), name)
    job = read_job(storage)
    if job is None:
        raise PlatformError(f"Job {name!r} in {storage.url} was deleted a moment ago.")
    return storage, job
