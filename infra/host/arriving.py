"""What must lie on this host's disk before its program can start?"""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.infra.contract import Scratch
from prefect_tpu.infra.disk import told
from prefect_tpu.infra.host import payload
from prefect_tpu.infra.host.assignment import Assignment
from prefect_tpu.infra.host.environment import HOME, TEMPORARY
from prefect_tpu.infra.storage import BUCKET, open_on_host


def lay_out(given: Assignment) -> Path:
    """The program's working folder, with its code in it; of a host with a disk of its own also the plan and the data.

    Raises:
        PayloadRefused: what was sent is not what was written down.
        PlatformError: storage cannot be read, or the disk not written.
    """
    work = given.scratch / payload.WORK
    with told("write", given.scratch):
        _make_folders(given, work)
    if given.plan.program.payload:
        payload.unpack(given.storage, given.plan.program.payload, work)
    if given.plan.data and given.plan.output.startswith(BUCKET):
        _fetch_data(given)
    return work


def _make_folders(given: Assignment, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    if given.plan.scratch is not None:
        given.plan_path.write_bytes(given.plan.to_json())
        for folder in (HOME, TEMPORARY):
            (given.scratch / folder).mkdir(exist_ok=True)


def _fetch_data(given: Assignment) -> None:
    from prefect_tpu.infra.host.data import NotStaged, download_data  # only where data lies in a bucket

    everything = open_on_host(given.plan.output.rpartition("/")[0])  # data lies beside the jobs of an output
    for sha256 in sorted(set(given.plan.data.values())):
        try:
            download_data(everything, sha256, given.scratch / Scratch.DATA / sha256)
        except NotStaged as exc:
            raise payload.PayloadRefused(str(exc)) from exc
