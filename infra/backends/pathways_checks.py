"""Can Pathways carry out such a job? What contradicts itself is refused before anything is written."""

from __future__ import annotations

from prefect_tpu.infra.accelerators import Slice, resolve
from prefect_tpu.infra.drills import parse_drill
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.pathways_pods import INSTANCES
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pathways import PathwaysSettings
from prefect_tpu.infra.storage import BUCKET


def unknown_to_pathways(name: str, shape: Slice) -> str | None:
    """Why Pathways cannot drive this accelerator; None where it can."""
    if shape.platform != "tpu":
        return f"Pathways drives TPUs alone, and {name} is none: name one, or leave the backend out."
    if shape.generation not in INSTANCES:
        return f"Pathways does not drive {shape.generation} ({name}): name one of {', '.join(INSTANCES)}."
    return None


def check_job(job: SliceJob, output: str) -> None:
    """Raise `UsageError` with what to change."""
    settings = (job.pods and job.pods.pathways) or PathwaysSettings()
    for name in job.accelerators:
        if why := unknown_to_pathways(name, resolve(name, dialect=job.dialect)):
            raise UsageError(why)
    settings.images()
    if settings.scratch is None and not output.startswith(BUCKET):
        raise UsageError(
            f"Pathways needs a bucket's folder to work in, and output {output!r} is none: name one with --output"
            f" {BUCKET}… or --pod pathways.scratch={BUCKET}…."
        )
    if settings.elastic_slices > job.slices:
        raise UsageError(
            f"pathways.elastic_slices is {settings.elastic_slices}, and the job spans {job.slices} of them: name as"
            " many at most."
        )
    if settings.elastic_slices and job.slices == 1:
        raise UsageError(
            "A job of one slice has none to go on with while that is lost: leave pathways.elastic_slices out."
        )
    for drill in map(parse_drill, job.drills):
        if drill.host > 0:
            raise UsageError(f"Drill {str(drill)!r} strikes no host: a job on Pathways has one, host 0.")
