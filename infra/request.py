"""What a person asks for, before it is a job: paths and names as they were typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra import packing, staging
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.local_slices import job_output
from prefect_tpu.infra.drills import parse_drill
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob, check_name
from prefect_tpu.infra.storage import open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job as it was asked for.

    program: `path.py:function`, `pkg.mod:function`, a script, a command, or
        `payload:<sha256>` for a function that was packed into the job's folder before.
    accelerators: in order of preference.
    data: name → file or folder of this machine.
    settings: further fields of `SliceJob`.
    """

    name: str
    program: str
    accelerators: tuple[str, ...]
    output: str
    params: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def default_output() -> str:
    """The folder of all jobs: `$PREFECT_TPU_OUTPUT`, else one in the user's data directory."""
    return job_output(os.environ)


def job_folder(output: str, name: str) -> str:
    """The folder of one job."""
    return open_storage(output).inside(check_name(name)).url


def prepare(request: Request, copied: Callable[[int], None] = lambda _: None) -> SliceJob:
    """Check everything, then lay down code and data. May be repeated: what lies there is not copied again.

    Raises `UsageError` for whatever the person can mend, before anything is written.
    """
    storage = open_storage(request.output).inside(check_name(request.name))
    _check_drills(request)
    packed = _pack(request)
    job = _job(request, packed, data={})
    staged = {name: staging.stage(source, request.output, copied).sha256 for name, source in request.data.items()}
    packed.send(storage)
    return _job(request, packed, data=staged) if staged else job


def _check_drills(request: Request) -> None:
    """A drill on a host that no slice has would never strike, and nobody would notice."""
    dialect = request.settings.get("dialect", "google")
    hosts = {name: resolve(name, dialect=dialect).hosts for name in request.accelerators}
    for drill in map(parse_drill, request.settings.get("drills", ())):
        if hosts and drill.host >= max(hosts.values()):
            have = ", ".join(f"{name} has {count}" for name, count in hosts.items())
            raise UsageError(f"Drill {str(drill)!r} strikes no host ({have}): hosts are counted from 0.")


def _pack(request: Request) -> packing.Packed:
    kind, _, rest = request.program.partition(":")
    if kind != "payload":
        return packing.pack(request.program, request.params, request.arguments)
    sha256, _, name = rest.partition(":")
    if len(sha256) != 64:
        raise UsageError(f"Program {request.program!r} names no payload: call prefect_tpu.train with the function.")
    return packing.packed_before(sha256, name, request.params)


def _job(request: Request, packed: packing.Packed, data: dict[str, str]) -> SliceJob:
    try:
        return SliceJob(
            name=request.name,
            program=packed.program,
            accelerators=request.accelerators,
            data=data,
            **request.settings,
        )
    except TypeError as exc:
        raise UsageError(f"Job {request.name!r} cannot be made: {exc}.") from exc
