"""How is a PyTorch checkpoint written and read? By torch.distributed.checkpoint, in the background, and sealed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract, seals
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, local_folder
from prefect_tpu.infra.training import agreement, moved, torch_on_tpus, torch_peers, torch_reading
from prefect_tpu.infra.training.background import Background
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.fitting import Only
from prefect_tpu.infra.training.store import disk_refused, sealed
from prefect_tpu.infra.training.torch_state import TorchState

_HOSTS = "hosts.json"  # what each host had for itself, beside what PyTorch writes


class TorchStore(Background):
    """The checkpoints of one attempt, and reading those of earlier ones.

    Into a bucket PyTorch does not write by itself: each host writes on its own disk, then brings its files there.
    """

    def __init__(self, root: Storage, attempt: int, on_sealed: Callable[[int], None]) -> None:
        self._root, self._attempt, self._on_sealed = root, attempt, on_sealed

    def begin(self, step: int, state: TorchState, positions: list[Any] | None, facts: Mapping[str, Any]) -> None:
        """Copy the state, then write it in the background. Waits for the save before."""
        import torch.distributed.checkpoint as dcp

        self.settle()
        point = RestorePoint(attempt=self._attempt, step=step)
        folder = self._folder(point)
        planner = torch_on_tpus.planners().get("save")
        with self._told(point), torch_reading.alone_is_meant():
            saving = dcp.async_save(
                state.taken(),
                checkpoint_id=folder,
                planner=planner() if planner else None,
                process_group=torch_peers.saving_group(),
            )
        where = self._root.where(seals.step_folder(point))
        self._behind(partial(self._finish, point, folder, saving, positions, facts), where)

    def close(self) -> None:
        """Nothing is kept open."""

    def sealed(self, point: RestorePoint, root: Storage | None = None) -> dict[str, Any]:
        """What the seal of a whole checkpoint says. root: of another job's checkpoints."""
        return sealed(root or self._root, point)

    def read(
        self, point: RestorePoint, state: TorchState, only: Only | None = None, root: Storage | None = None
    ) -> tuple[Any, list[Any] | None]:
        """(state, positions) of a whole checkpoint; the objects of the state have it from now on.

        only: which tensors of the model are taken, while all else stays as it is.
        """
        with moved.brought(root or self._root, point) as folder:
            torch_reading.read(folder, state, only, point)
            hosts = folder / _HOSTS
            positions = json.loads(hosts.read_bytes())["hosts"] if hosts.exists() else None
        return state, positions

    def _folder(self, point: RestorePoint) -> Path:
        """Where PyTorch writes."""
        if (root := local_folder(self._root)) is not None:
            return root / seals.step_folder(point)
        here = context()
        return Path(tempfile.mkdtemp(prefix=f"checkpoint-{point.step}-", dir=here.scratch if here else None))

    def _finish(
        self, point: RestorePoint, folder: Path, saving: Any, positions: list[Any] | None, facts: Mapping[str, Any]
    ) -> None:
        """Wait for PyTorch, which waits for all hosts, then seal."""
        with self._told(point):
            saving.result()
            if positions is not None and agreement.is_leader():
                (folder / _HOSTS).write_bytes(contract.write_json({"hosts": positions}))
            if local_folder(self._root) is None:
                self._bring(point, folder)
            if agreement.is_leader():
                seals.seal(self._root, point, **facts)
                self._on_sealed(point.step)

    def _bring(self, point: RestorePoint, folder: Path) -> None:
        import torch.distributed as dist

        moved.bring(folder, self._root, point)
        shutil.rmtree(folder, ignore_errors=True)
        if agreement.peers() > 1:
            dist.barrier(group=torch_peers.saving_group())

    @contextmanager
    def _told(self, point: RestorePoint) -> Iterator[None]:
        """A full disk is no defect of the program, and PyTorch wraps what any host raised."""
        try:
            yield
        except BaseException as exc:
            error = torch_reading.cause(exc)
            why = disk_refused(error)
            if why is None:
                raise error from None
            raise PlatformError(
                f"The checkpoint {self._root.where(seals.step_folder(point))} could not be written: {why.said}."
                f" The ones before it are as they were. {why.remedy}, then run the job again by the same name."
            ) from error
