"""What a person asks for, before it is a job: paths and names as they were typed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from prefect_tpu.infra import packing, staging, start_points
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.drills import DrillKind, parse_drill
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob, check_name
from prefect_tpu.infra.job_checks import nearest
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.meshes import Devices, fit_mesh, parse_mesh, spelled
from prefect_tpu.infra.storage import BUCKET, Storage, local_folder, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job as it was asked for.

    program: `path.py:function`, `pkg.mod:function`, a script, a command, or
        `payload:<sha256>` for a function that was packed into the job's folder before.
    accelerators: in order of preference.
    data: name → file or folder of this machine.
    settings: further fields of `SliceJob`.
    compile: what is compiled before a slice is asked for: `yes` for the program's own step, a function that lowers it,
        or nothing where it is empty. It is no part of the job.
    """

    name: str
    program: str
    accelerators: tuple[str, ...]
    output: str
    params: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    compile: str = ""


def default_output(backend: str = "local") -> str:
    """The folder of all jobs: `$PREFECT_TPU_OUTPUT`, else one in the user's data directory.

    Raises `UsageError` where the backend's hosts cannot reach this machine's folders and no other is named.
    """
    return open_backend(backend).default_output()


def made_up_name() -> str:
    """Of a job that nobody named."""
    return f"t-{secrets.token_hex(6)}"


def job_folder(output: str, name: str) -> str:
    """The folder or URL of one job; no bucket is asked whether it is there."""
    if output.startswith(BUCKET):
        return f"{output.rstrip('/')}/{check_name(name)}"
    return open_storage(output).inside(check_name(name)).url


def _opened(request: Request) -> Storage:
    return open_storage(request.output).inside(check_name(request.name))


def prepare(request: Request, copied: Callable[[int], None] = lambda _: None) -> SliceJob:
    """Check everything, then lay down code and data. May be repeated: what lies there is not copied again.

    Raises `UsageError` for whatever the person can mend, before anything is written.
    """
    packed = _checked(request)
    storage = _opened(request)
    staged = {name: staging.stage(source, request.output, copied).sha256 for name, source in request.data.items()}
    job = _job(request, packed, data=staged)
    history.check_stored(storage, job)
    packed.send(storage)
    return job


def check(request: Request) -> None:
    """Raise `UsageError` for whatever the person can mend, but for what is in the data; nothing is written."""
    _checked(request)
    for source in request.data.values():
        staging.check(source, request.output)


def imagine(request: Request) -> tuple[SliceJob, packing.Packed]:
    """The job and what would travel with it; everything is read and checked, nothing is written."""
    _checked(request)  # before data is measured, which may take long
    job, packed = imagine_unseen(request)
    history.check_stored(_opened(request), job)
    return job, packed


def imagine_unseen(request: Request) -> tuple[SliceJob, packing.Packed]:
    """The same where its output cannot be seen: whether the name is free there, nobody knows."""
    packed, _ = _checked_alone(request)
    data = {name: staging.measure(source, request.output)[0] for name, source in request.data.items()}
    return _job(request, packed, data=data), packed


def _checked(request: Request) -> packing.Packed:
    packed, job = _checked_alone(request)
    _check_output(open_storage(request.output))
    if job.start_from:
        start_points.check(job.start_from, request.output)
    _check_free(_opened(request), job, request.data)
    return packed


def _checked_alone(request: Request) -> tuple[packing.Packed, SliceJob]:
    """Without a look at its output, and without its data."""
    check_name(request.name)
    _check_accelerators(request)
    _check_drills(request)
    packed = _pack(request)
    job = _job(request, packed, data={})
    check_mesh(job.mesh, job.accelerators, slices=job.slices, dialect=job.dialect)
    open_backend(job.backend).check(job, request.output)
    return packed, job


def _check_free(storage: Storage, job: SliceJob, names: Iterable[str]) -> None:
    """Whether the name is free or this job's own, before its data is read and copied: that may take long."""
    stored = history.read_job(storage)
    if stored is not None:
        data = {name: stored.data.get(name, "") for name in names}
        history.check_stored(storage, replace(job, data=data))


def _check_output(storage: Storage) -> None:
    """Whether the folder of all jobs is there or may be made; what else a disk or a bucket refuses it says itself."""
    output = local_folder(storage)
    if output is None:
        return
    there = next(place for place in (output, *output.parents) if os.path.exists(place))
    if not there.is_dir():
        raise UsageError(f"Output {output} cannot be a folder: {there} is a file. Name another folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"Output {output} cannot be written: {there} forbids it. Change that or name another folder.")


def _check_accelerators(request: Request) -> None:
    for wrong in (name for name in request.accelerators if not isinstance(name, str)):
        raise UsageError(f"Accelerator {wrong!r} is no text: give a name such as 'v6e-16' or 'cpu'.")


def _check_drills(request: Request) -> None:
    """A drill on a host that no slice has would never strike, and nobody would notice."""
    dialect = request.settings.get("dialect", "google")
    slices = request.settings.get("slices", 1)
    hosts = {name: resolve(name, dialect=dialect).hosts * slices for name in request.accelerators}
    for drill in map(parse_drill, request.settings.get("drills", ())):
        if hosts and drill.host >= max(hosts.values()):
            have = ", ".join(f"{name} has {count}" for name, count in hosts.items())
            raise UsageError(f"Drill {str(drill)!r} strikes no host ({have}): hosts are counted from 0.")
        if drill.kind is DrillKind.HANG and not _has_limit(request.settings):
            raise UsageError(f"Drill {str(drill)!r} would never end: give the job a stall_timeout or a deadline.")


def check_mesh(mesh: str, accelerators: Iterable[str], *, slices: int = 1, dialect: str = "google") -> None:
    """Raise `UsageError` for a mesh that one of the slices cannot be: found here, before anybody pays for one."""
    for name in accelerators if mesh else ():
        count = resolve(name, dialect=dialect).jax_devices * slices
        fit_mesh(parse_mesh(mesh), Devices(count=count, slices=slices, of=name))


def _has_limit(settings: Mapping[str, Any]) -> bool:
    """Whether a program that stands still is ended: by default it is."""
    return settings.get("stall_timeout", 0.0) is not None or settings.get("deadline") is not None


def _pack(request: Request) -> packing.Packed:
    kind, _, rest = request.program.partition(":")
    if kind != "payload":
        return packing.pack(request.program, request.params, request.arguments)
    sha256, _, name = rest.partition(":")
    if len(sha256) != 64:
        raise UsageError(f"Program {request.program!r} names no payload: call prefect_tpu.train with the function.")
    return packing.packed_before(sha256, name, request.params)


def _job(request: Request, packed: packing.Packed, data: dict[str, str]) -> SliceJob:
    known = {f.name for f in fields(SliceJob)} - {"name", "program", "accelerators", "data"}
    for name in request.settings:
        if name not in known:
            hint = nearest(str(name), known) or f"It has: {', '.join(sorted(known))}."
            raise UsageError(f"Job {request.name!r} has no setting {name!r}. {hint}")
    start_from = request.settings.get("start_from", "")
    return SliceJob(
        name=request.name,
        program=packed.program,
        accelerators=request.accelerators,
        data=data,
        **{
            **request.settings,
            "start_from": start_points.spelled(start_from, request.output),
            "mesh": spelled(request.settings.get("mesh")),
        },
    )
