"""Which job, host and data is this? Answered without JAX."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.training.context import Context, context


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What a program may want to know of its job. Outside a job: one host that leads itself.

    output: the job's folder; outside a job the current one.
    data: name → path of staged data, a file or a folder.
    """

    job: str | None = None
    attempt: int = 0
    host: int = 0
    hosts: int = 1
    accelerator: str | None = None
    output: Path = Path(".")
    data: dict[str, Path] = field(default_factory=dict)

    @property
    def is_leader(self) -> bool:
        return self.host == 0

    @property
    def inside_job(self) -> bool:
        return self.job is not None


def info() -> Info:
    """This process's job, host and data."""
    here = context()
    return Info() if here is None else _inside(here)


def _inside(here: Context) -> Info:
    plan = here.plan
    output = Path(plan.output)
    return Info(
        job=plan.job,
        attempt=plan.attempt,
        host=here.host,
        hosts=plan.hosts,
        accelerator=plan.accelerator,
        output=output,
        data={name: _staged(output.parent, name, sha256) for name, sha256 in plan.data.items()},
    )


def _staged(root: Path, name: str, sha256: str) -> Path:
    """The staged file or folder. Its manifest lies beside it and says which."""
    folder = root / layout.data(sha256)
    try:
        manifest = contract.read_json(folder.with_name(f"{sha256}.json").read_bytes(), f"The manifest of data {name!r}")
    except OSError as exc:
        raise PlatformError(
            f"Data {name!r} is not staged at {folder}: {exc.strerror}. Start the job again to stage it."
        ) from exc
    place = folder / str(manifest["name"]) if manifest["kind"] == "file" else folder
    if not place.exists():
        raise PlatformError(f"Data {name!r} is not at {place} any more. Start the job again to stage it.")
    return place
