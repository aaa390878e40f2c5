"""Which jobs lie in an output?"""

from __future__ import annotations

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.job_checks import nearest
from prefect_tpu.infra.storage import Storage, local_folder, open_storage


def job_names(output: str) -> list[str]:
    """Names of all jobs whose folders lie in `output`, sorted; none where there is no such folder.

    Raises:
        UsageError: it is a file.
        PlatformError: it cannot be read.
    """
    storage = open_storage(output)
    names = [name for name in _children(storage) if layout.JOB_NAME.fullmatch(name)]
    return [name for name in names if storage.changed(f"{name}/{layout.JOB}") is not None]


def _children(storage: Storage) -> list[str]:
    """A file in place of a folder holds nothing, which would say that there are no jobs."""
    folder = local_folder(storage)
    if folder is not None and folder.is_file():
        raise UsageError(f"Output {storage.url} is no folder: name the one that holds the jobs.")
    return storage.children("")


def find_job(output: str, name: str) -> Storage:
    """The folder of a job. Raises `NoSuchJob`, with the nearest name, where none is called that."""
    names = job_names(output)
    if name in names:
        return open_storage(output).inside(name)
    place = open_storage(output).url
    hint = nearest(name, names) or "`prefect-tpu list` shows the jobs there; --output names another."
    raise NoSuchJob(f"There is no job {name!r} in {place}. {hint}")
