"""How does a checkpoint that a framework writes and reads as plain files come into storage and back?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect_tpu.infra import seals
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, local_folder
from prefect_tpu.infra.training.context import context


def bring(folder: Path, root: Storage, point: RestorePoint) -> None:
    """Put every file of a folder of this host into the checkpoint; again is the same."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        root.put_file(f"{seals.step_folder(point)}/{file.relative_to(folder).as_posix()}", file)


def kept(root: Storage, point: RestorePoint) -> Path:
    """The checkpoint as a folder of this host: where it lies, or a copy out of its bucket in the host's own folder."""
    if (folder := local_folder(root)) is not None:
        return folder / seals.step_folder(point)
    here = context()
    copy = Path(tempfile.mkdtemp(prefix="restored-", dir=here.scratch if here is not None else None))
    inside = seals.step_folder(point)
    for name in root.list(inside):
        file = copy / name.removeprefix(f"{inside}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        root.get_file(name, file)
    return copy


@contextmanager
def brought(root: Storage, point: RestorePoint) -> Iterator[Path]:
    """As `kept`; a copy is gone afterwards."""
    folder = kept(root, point)
    try:
        yield folder
    finally:
        if local_folder(root) is None:
            shutil.rmtree(folder, ignore_errors=True)
