"""How does a host of this machine stand, by what is on its disk and whether its runner lives?"""

from __future__ import annotations

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.backends.base import Handle
from prefect_tpu.infra.backends.local_logs import last_lines, read_lines
from prefect_tpu.infra.scratch import joined_after, read_progress
from prefect_tpu.infra.state import HostObservation, HostPhase
from prefect_tpu.infra.storage import LocalStorage


def view(handle: Handle, host: int, *, is_running: bool | None, code: int | None) -> HostObservation:
    """The host as it is.

    is_running: asked before, for a runner writes its record and then ends; None while none has claimed the host.
    code: of the runner that has ended, where that is known.
    """
    storage, attempt = LocalStorage(handle["output"]), handle["attempt"]
    scratch = storage.path(layout.scratch(attempt, host))
    progress = read_progress(scratch)
    joined = progress.step is not None or joined_after(scratch) is not None  # events are many: steps spare them
    raw = storage.get(layout.record(attempt, host))
    if raw is not None:
        return _from_record(host, raw, joined, progress)
    if is_running is None:
        return HostObservation(host=host, phase=HostPhase.PENDING)
    if is_running:
        return HostObservation(host=host, phase=HostPhase.RUNNING, joined=joined, progress=progress)
    return HostObservation(
        host=host,
        phase=HostPhase.ENDED,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        reason=f"its runner process is gone{_last_words(handle, host)}",
        joined=joined,
        progress=progress,
    )


def runner_of(handle: Handle, host: int) -> int | None:
    """The process that has claimed a host; None where none has."""
    name = layout.started(handle["attempt"], host)
    raw = LocalStorage(handle["output"]).get(name)
    with contract.reading(name):
        return None if raw is None else int(contract.read_json(raw, name)["pid"])


def _from_record(host: int, raw: bytes, joined: bool, progress: contract.Progress) -> HostObservation:
    """What the record says; a damaged one counts as none, with the damage as the reason."""
    try:
        record = contract.HostRecord.from_json(raw)
    except contract.ContractError as exc:
        return HostObservation(host=host, phase=HostPhase.ENDED, reason=str(exc), joined=joined, progress=progress)
    return HostObservation(
        host=host,
        phase=HostPhase.ENDED,
        exit_code=record.exit_code,
        joined=joined,
        progress=record.progress,
        record=record,
    )


def _last_words(handle: Handle, host: int) -> str:
    """What a runner wrote last, where it wrote anything: a healthy one is silent."""
    log = LocalStorage(handle["output"]).path(layout.runner_log(handle["attempt"], host))
    lines, _ = read_lines(log, last_lines(log, 1), whole=False)
    return f"; it said: {lines[-1]}" if lines else ""
