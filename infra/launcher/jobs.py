"""Which jobs lie in an output?"""

from __future__ import annotations

import os

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import NoSuchJob, PlatformError, UsageError
from prefect_tpu.infra.job_checks import nearest
from prefect_tpu.infra.storage import LocalStorage, open_storage


def job_names(output: str) -> list[str]:
    """Names of all jobs whose folders lie in `output`, sorted; none where there is no such folder.

    Raises:
        UsageError: it is a file.
        PlatformError: it cannot be read.
    """
    storage = open_storage(output)
    try:
        with os.scandir(storage.root) as found:
            names = [entry.name for entry in found if layout.JOB_NAME.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    except NotADirectoryError as exc:
        raise UsageError(f"Output {storage.url} is no folder: name the one that holds the jobs.") from exc
    except OSError as exc:
        raise PlatformError(
            f"The jobs in {storage.url} cannot be listed: {exc.strerror}. Check its permissions."
        ) from exc
    return sorted(name for name in names if storage.path(f"{name}/{layout.JOB}").exists())


def find_job(output: str, name: str) -> LocalStorage:
    """The folder of a job. Raises `NoSuchJob`, with the nearest name, where none is called that."""
    names = job_names(output)
    if name in names:
        return open_storage(output).inside(name)
    place = open_storage(output).url
    hint = nearest(name, names) or "`prefect-tpu list` shows the jobs there; --output names another."
    raise NoSuchJob(f"There is no job {name!r} in {place}. {hint}")
