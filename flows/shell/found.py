"""Which job is meant by a name on the command line, and by which words is a job named there?"""

from __future__ import annotations

import os
import shlex

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.history import read_job
from prefect_tpu.infra.launcher.jobs import find_job
from prefect_tpu.infra.request import default_output, job_folder
from prefect_tpu.infra.storage import Storage


def found(name: str, output: str | None) -> tuple[Storage, SliceJob]:
    """Its folder and what was asked for. Raises `NoSuchJob`, with the nearest name."""
    storage = find_job(output or default_output(), name)
    job = read_job(storage)
    if job is None:
        raise PlatformError(f"Job {name!r} in {storage.url} was deleted a moment ago.")
    return storage, job


def words_for(folder: str) -> str:
    """To be copied behind a command: the job's name, and its output where that is not the default."""
    output, name = os.path.split(folder)
    return name if folder == job_folder(default_output(), name) else f"{name} --output {shlex.quote(output)}"
