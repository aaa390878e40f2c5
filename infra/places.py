"""Which folders of this machine are this user's own for prefect-tpu?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.storage import Storage, local_folder


def data_folder(environment: Mapping[str, str]) -> Path:
    """This user's folder for everything of prefect-tpu on this machine (XDG base directories)."""
    base = environment.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "prefect-tpu"


def job_output(environment: Mapping[str, str]) -> str:
    """The folder of all jobs: `$PREFECT_TPU_OUTPUT`, else one in the user's data directory."""
    return environment.get(Env.OUTPUT) or str(data_folder(environment) / "jobs")


def driver_log(storage: Storage, environment: Mapping[str, str]) -> Path:
    """What a driver says that nobody watches: in the job's folder, or on this machine where that is no folder of it."""
    folder = local_folder(storage)
    if folder is not None:
        return folder / layout.DRIVER_LOG
    name = hashlib.sha256(storage.url.encode()).hexdigest()[:12]
    return data_folder(environment) / "drivers" / f"{storage.url.rstrip('/').rpartition('/')[2]}-{name}.log"


def existing(path: Path) -> str:
    """The nearest folder that is there: an output is made with its first job."""
    path = Path(os.path.abspath(path.expanduser()))
    return str(next(folder for folder in (path, *path.parents) if folder.exists()))
