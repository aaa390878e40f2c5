"""How does what a transformers.Trainer writes become a checkpoint? It is put in its place and sealed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prefect_tpu.infra import seals
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, local_folder
from prefect_tpu.infra.training import agreement, moved
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.fitting import Only
from prefect_tpu.infra.training.store import sealed

_STATE = "trainer_state.json"  # the Trainer's own
_WORK = "trainer"  # beside the steps of an attempt: what it has not finished there goes when the attempt has ended


class TrainerStore:
    """The checkpoints of one attempt, and reading those of earlier ones. All is done when a call returns."""

    def __init__(self, root: Storage, attempt: int, on_sealed: Callable[[int], None]) -> None:
        self._root, self._attempt, self._on_sealed = root, attempt, on_sealed

    @property
    def work(self) -> Path:
        """Where the Trainer writes: all hosts into one folder, or into this host's own where it goes to a bucket."""
        if (root := local_folder(self._root)) is not None:
            return root / str(self._attempt) / _WORK
        here = context()
        return (here.scratch if here is not None else Path.cwd()) / _WORK

    def begin(self, step: int, state: Path, positions: list[Any] | None, facts: Mapping[str, Any]) -> None:
        """Make the folder that the Trainer has written the checkpoint of a step, on all hosts together."""
        point = RestorePoint(attempt=self._attempt, step=step)
        agreement.meet("prefect_tpu written")  # each host has written its part
        if (root := local_folder(self._root)) is None:
            moved.bring(state, self._root, point)
            shutil.rmtree(state, ignore_errors=True)
            agreement.meet("prefect_tpu brought")
        elif agreement.is_leader():
            shutil.move(state, root / seals.step_folder(point))
        if agreement.is_leader():
            seals.seal(self._root, point, **facts)
            self._on_sealed(step)

    def check(self) -> None:
        """Nothing goes on in the background."""

    def settle(self) -> None: ...

    def abandon(self) -> None: ...

    def close(self) -> None:
        """At the usual end: what the Trainer's folder still has is nothing of a checkpoint."""
        if agreement.is_leader() or local_folder(self._root) is None:
            shutil.rmtree(self.work, ignore_errors=True)

    def sealed(self, point: RestorePoint, root: Storage | None = None) -> dict[str, Any]:
        """What the seal of a whole checkpoint says. root: of another job's checkpoints."""
        return sealed(root or self._root, point)

    def read(
        self, point: RestorePoint, state: Any, only: Only | None = None, root: Storage | None = None
    ) -> tuple[str, None]:
        """The folder of a whole checkpoint, on this host, as long as the program runs."""
        root = root or self._root
        folder = moved.kept(root, point)
        if not (folder / _STATE).exists():
            raise UsageError(
                f"The checkpoint of step {point.step} (attempt {point.attempt}) was not written by a Trainer:"
                f" {root.where(seals.step_folder(point))} has no {_STATE}. Read it with what wrote it, or start under"
                " another name."
            )
        return str(folder), None
