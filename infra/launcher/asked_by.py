"""Which Prefect flow run is to know how a job goes? Written by whoever asks for the job, read by the reconciler."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBy:
    """Who asked for a job.

    flow_run: the id of the flow run.
    work_pool: the id of the `tpu-slice` work pool whose run the job is; None where the run has a process elsewhere that
        asked for a slice, as the flow `train` has.
    """

    flow_run: str
    work_pool: str | None = None


def write_asked_by(storage: Storage, asker: AskedBy) -> None:
    """Keep who asks now; the last one counts."""
    storage.put(layout.ASKED_BY, contract.write_json(asdict(asker)))


def read_asked_by(storage: Storage) -> AskedBy | None:
    """Who asked last; None where no flow run did."""
    raw = storage.get(layout.ASKED_BY)
    if raw is None:
        return None
    with contract.reading(layout.ASKED_BY):
        data = contract.read_json(raw, layout.ASKED_BY)
        return AskedBy(flow_run=str(data["flow_run"]), work_pool=data.get("work_pool"))
