"""How is a checkpoint written? By Orbax, in the background, and sealed when it is whole.

Orbax's `CheckpointManager` is not used: it asks JAX's preemption service about
its own steps, also from a thread of its own, and the service remembers only the
number it was asked last. Our agreed notice counts calls and would be missed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from prefect_tpu.infra import seals
from prefect_tpu.infra.errors import PlatformError, StorageAway, UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, local_folder
from prefect_tpu.infra.training import agreement, cloud, leaves, reading
from prefect_tpu.infra.training.background import Background
from prefect_tpu.infra.training.cloud import Refused
from prefect_tpu.infra.training.fitting import Only
from prefect_tpu.infra.training.reading import STATE_READER, Reader

_OS_ERROR = re.compile(r"\[os_error_code='(\d+)'\]")  # TensorStore says so in the text of a ValueError, nowhere else


class Keeper(Protocol):
    """What writes and reads the checkpoints of one attempt, in the way of its framework."""

    def begin(self, step: int, state: Any, positions: list[Any] | None, facts: Mapping[str, Any]) -> None:
        """Take the state as it is now, then write it, also in the background. Waits for the save before."""
        ...

    def check(self) -> None: ...

    def settle(self) -> None: ...

    def abandon(self) -> None: ...

    def close(self) -> None: ...

    def sealed(self, point: RestorePoint, root: Storage | None = None) -> dict[str, Any]: ...

    def read(
        self, point: RestorePoint, state: Any, only: Only | None = None, root: Storage | None = None
    ) -> tuple[Any, list[Any] | None]: ...


class Store(Background):
    """The checkpoints of one attempt, and reading those of earlier ones."""

    def __init__(
        self, root: Storage, attempt: int, on_sealed: Callable[[int], None], reader: Reader = STATE_READER
    ) -> None:
        """on_sealed: called on the leader, in a thread, with the step of each checkpoint that is whole."""
        self._is_cloud = local_folder(root) is None
        if self._is_cloud:
            cloud.prepare()
        import orbax.checkpoint as ocp  # type: ignore[import-untyped]

        self._root, self._attempt, self._on_sealed, self._reader = root, attempt, on_sealed, reader
        self._args = ocp.args
        self._orbax = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())
        self._is_alike = False

    def begin(self, step: int, state: Any, positions: list[Any] | None, facts: Mapping[str, Any]) -> None:
        """Copy the state, then write it in the background. Waits for the save before. facts: for its seal."""
        self.settle()
        if not self._is_alike:  # once: hosts that train apart differ at the first save
            leaves.check_alike(state)
            self._is_alike = True
        items = {reading.STATE: self._args.StandardSave({reading.WHOLE: leaves.to_disk(state)})}
        if positions is not None:
            items[reading.DATA] = self._args.JsonSave({"hosts": positions})
        point = RestorePoint(attempt=self._attempt, step=step)
        with self._told(point):
            self._orbax.save(self._where(point), args=self._args.Composite(**items))
        self._behind(partial(self._finish, point, facts), self._where(point))

    def close(self) -> None:
        self._orbax.close()

    def sealed(self, point: RestorePoint, root: Storage | None = None) -> dict[str, Any]:
        """What the seal of a whole checkpoint says. root: of another job's checkpoints."""
        return sealed(root or self._root, point)

    def read(
        self, point: RestorePoint, state: Any, only: Only | None = None, root: Storage | None = None
    ) -> tuple[Any, list[Any] | None]:
        """(state, positions) of a whole checkpoint, placed like the given state. only: which leaves come from it."""
        root = root or self._root
        where = root.where(seals.step_folder(point))
        with_data = bool(root.list(f"{seals.step_folder(point)}/{reading.DATA}"))
        with self._told_of_reading(point, where):
            found: tuple[Any, list[Any] | None] = reading.read(
                where, point, state, only, with_data=with_data, reader=self._reader
            )
        return found

    def _where(self, point: RestorePoint) -> str:
        """A path or a URL, as Orbax takes both."""
        return self._root.where(seals.step_folder(point))

    def _finish(self, point: RestorePoint, facts: Mapping[str, Any]) -> None:
        """Wait for Orbax's commit, which waits for all hosts, then seal."""
        with self._told(point):
            self._orbax.wait_until_finished()
            if agreement.is_leader():
                self._seal(point, facts)

    @contextmanager
    def _told(self, point: RestorePoint) -> Iterator[None]:
        """A full disk, or a bucket that refuses, is no defect of the program, whatever Orbax calls it."""
        try:
            yield
        except Exception as exc:
            why = cloud.refused(exc) if self._is_cloud else disk_refused(exc)
            if why is None:
                raise
            raise _error(why)(
                f"The checkpoint {self._where(point)} could not be written: {why.said}."
                f" The ones before it are as they were. {why.remedy}, then run the job again by the same name."
            ) from exc

    @contextmanager
    def _told_of_reading(self, point: RestorePoint, where: str) -> Iterator[None]:
        """A disk says by itself what it cannot read; of a bucket Orbax says it as of a state that does not fit."""
        try:
            yield
        except Exception as exc:
            why = cloud.refused(exc) if self._is_cloud else None
            if why is not None:
                raise _error(why)(
                    f"The checkpoint {where} could not be read: {why.said}. {why.remedy}, then run the job"
                    " again by the same name."
                ) from exc
            if isinstance(exc, ValueError):
                raise UsageError(
                    f"The checkpoint of step {point.step} (attempt {point.attempt}) does not fit {self._reader.given}:"
                    f" {str(exc).rstrip('.')}. {self._reader.advice}"
                ) from exc
            raise

    def _seal(self, point: RestorePoint, facts: Mapping[str, Any]) -> None:
        seals.seal(self._root, point, **facts)
        self._on_sealed(point.step)


def sealed(root: Storage, point: RestorePoint) -> dict[str, Any]:
    """What the seal of a whole checkpoint says. Raises `PlatformError` for one that is not whole."""
    said = seals.said(root, point)
    if said is None:
        raise PlatformError(
            f"Checkpoint {root.where(seals.step_folder(point))} is not whole: its seal or a file of it is missing."
            " Start again from an older one, or bring its files back."
        )
    return said


def _error(why: Refused) -> type[PlatformError]:
    return StorageAway if why.may_pass else PlatformError


def disk_refused(exc: BaseException) -> Refused | None:
    """What the disk said; None where the exception comes from no disk."""
    number = disk_error(exc)
    if number is None:
        return None
    is_full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "Make room there" if is_full else "Let this user write there"
    return Refused(said=os.strerror(number), remedy=remedy)


def disk_error(exc: BaseException) -> int | None:
    """The system's number of the disk's error that an exception comes from; None where it comes from none.

    A connection that broke is the network's error: the peer is lost.
    """
    if isinstance(exc, OSError):
        return None if isinstance(exc, ConnectionError) else exc.errno
    said = _OS_ERROR.search(str(exc))
    return int(said[1]) if said else None
