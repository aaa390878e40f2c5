"""By what do the hosts of a flow on this machine know each other? A key in the job's folder, for its owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.disk import disk_refusal


def region_key(folder: Path) -> str:
    """The key of the job in this folder, made where there is none. Raises `PlatformError` where the disk refuses it."""
    path = folder / layout.REGION_KEY
    try:
        if not path.exists():
            _make(path)
        return path.read_text()
    except OSError as exc:
        raise disk_refusal("write", path, exc) from exc


def _make(path: Path) -> None:
    """Whole at once, and only where there is none: two drivers may make it at the same moment."""
    descriptor, temporary = tempfile.mkstemp(prefix=layout.TEMPORARY, dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
