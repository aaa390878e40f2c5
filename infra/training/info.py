"""Which job, host and data is this? Answered without JAX."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from prefect_tpu.infra import layout, start_points
from prefect_tpu.infra.content import read_manifest
from prefect_tpu.infra.contract import Scratch
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import BUCKET
from prefect_tpu.infra.training import bare
from prefect_tpu.infra.training.context import Context, context


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What a program may want to know of its job. Outside a job: one host that leads itself, or the one of several that
    another launcher says it is, as `join` reads it.

    output: the job's folder; outside a job the current one. In a bucket it is a text such as
        `gs://bucket/jobs/digits`, as gcsfs, `etils.epath` and TensorStore take it.
    data: name → path of staged data on this host, a file or a folder.
    start_from: the folder of the job whose model this one starts with, as `output`; None where it starts afresh.
    """

    job: str | None = None
    attempt: int = 0
    host: int = 0
    hosts: int = 1
    accelerator: str | None = None
    output: Path | str = Path(".")
    data: dict[str, Path] = field(default_factory=dict)
    start_from: Path | str | None = None

    @property
    def is_leader(self) -> bool:
        return self.host == 0

    @property
    def inside_job(self) -> bool:
        return self.job is not None


def info() -> Info:
    """This process's job, host and data.

    Raises `UsageError` where variables of another launcher are missing or contradict each other.
    """
    here = context()
    return _outside() if here is None else _inside(here)


def _outside() -> Info:
    peers = bare.peers()
    return Info() if peers is None else Info(host=peers.host, hosts=peers.hosts)


def _inside(here: Context) -> Info:
    plan = here.plan
    return Info(
        job=plan.job,
        attempt=plan.attempt,
        host=here.host,
        hosts=plan.hosts,
        accelerator=plan.accelerator,
        output=_place(plan.output),
        data={name: _staged(name, _folder(here, sha256)) for name, sha256 in plan.data.items()},
        start_from=_place(start_points.parse(plan.start_from).folder) if plan.start_from else None,
    )


def _place(folder: str) -> Path | str:
    return folder if folder.startswith(BUCKET) else Path(folder)


def _folder(here: Context, sha256: str) -> Path:
    """Where this host finds staged data: beside the jobs, or where its runner has laid it on this host's own disk."""
    if here.plan.output.startswith(BUCKET):
        return here.scratch / Scratch.DATA / sha256
    return Path(here.plan.output).parent / layout.data(sha256)


def _staged(name: str, folder: Path) -> Path:
    """The staged file or folder. Its manifest lies beside it and says which."""
    try:
        raw = folder.with_name(f"{folder.name}.json").read_bytes()
    except OSError as exc:
        raise PlatformError(
            f"Data {name!r} is not staged at {folder}: {exc.strerror}. Start the job again to stage it."
        ) from exc
    manifest = read_manifest(raw, f"The manifest of data {name!r}")
    place = folder if manifest.is_folder else folder / manifest.name
    if not place.exists():
        raise PlatformError(f"Data {name!r} is not at {place} any more. Start the job again to stage it.")
    return place
