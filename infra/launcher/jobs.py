"""Which jobs lie in an output?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.job_checks import nearest
from prefect_tpu.infra.storage import Storage, local_folder, open_storage

MOST_AT_ONCE = 16  # questions to one output: a bucket takes its time for each


def job_names(output: str) -> list[str]:
    """Names of all jobs whose folders lie in `output`, sorted; none where there is no such folder.

    Raises:
        UsageError: it is a file.
        PlatformError: it cannot be read.
    """
    storage = open_storage(output)
    names = folder_names(storage)
    with ThreadPoolExecutor(MOST_AT_ONCE) as side_by_side:
        are_jobs = side_by_side.map(lambda name: _is_job(storage, name), names)
        return [name for name, is_job in zip(names, are_jobs, strict=True) if is_job]


def folder_names(storage: Storage) -> list[str]:
    """Of what may be jobs, by their names alone: one look, for whoever reads each of them anyway."""
    return [name for name in _children(storage) if layout.JOB_NAME.fullmatch(name)]


def _is_job(storage: Storage, name: str) -> bool:
    return storage.changed(f"{name}/{layout.JOB}") is not None


def _children(storage: Storage) -> list[str]:
    """A file in place of a folder holds nothing, which would say that there are no jobs."""
    folder = local_folder(storage)
    if folder is not None and folder.is_file():
        raise UsageError(f"Output {storage.url} is no folder: name the one that holds the jobs.")
    return storage.children("")


def find_job(output: str, name: str) -> Storage:
    """The folder of a job. Raises `NoSuchJob`, with the nearest name, where none is called that."""
    storage = open_storage(output)
    if layout.JOB_NAME.fullmatch(name) and _is_job(storage, name):
        return storage.inside(name)
    hint = nearest(name, job_names(output)) or "`prefect-tpu list` shows the jobs there; --output names another."
    raise NoSuchJob(f"There is no job {name!r} in {storage.url}. {hint}")
