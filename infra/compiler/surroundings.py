"""What does a program find around it that shall only run up to its step? One host of a job that has all devices."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.compiler.question import Question, Target
from prefect_tpu.infra.content import Manifest, manifest_name, write_manifest
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan

JOB, PLAN = "compile", "plan.json"
NEVER = 1e9  # seconds


def surround(target: Target, question: Question, scratch: Path) -> None:
    """Set this process's environment; before JAX is loaded.

    Inside a job `tpu.mesh()`, `tpu.info()` and the like answer as on the slice, and checkpoints lie in the scratch
    folder, where none are and where nobody looks for those that are written.
    """
    output = scratch / "jobs" / JOB
    own = scratch / "host"
    own.mkdir()
    plan = _plan(target, question, output)
    (scratch / PLAN).write_bytes(plan.to_json())
    _lay_data(target, output.parent)
    words = {
        Env.PLAN: str(scratch / PLAN),
        Env.SCRATCH: str(own),
        Env.RUNNER: str(os.getppid()),
        Env.STARTED: repr(time.monotonic()),
    }
    found = program_environment(plan, 0, inherited=os.environ, own=words)
    os.environ.clear()
    os.environ.update(found)


def begin_again(scratch: Path, attempt: int) -> None:
    """The program runs once more in this process: as another attempt of its job, since each opens its checkpoints."""
    plan = replace(HostPlan.from_json((scratch / PLAN).read_bytes()), attempt=attempt)
    place = scratch / f"plan-{attempt}.json"
    place.write_bytes(plan.to_json())
    os.environ[Env.PLAN] = str(place)


def _plan(target: Target, question: Question, output: Path) -> HostPlan:
    devices = resolve(question.accelerator).jax_devices * question.slices
    return HostPlan(
        job=JOB,
        attempt=1,
        accelerator=question.accelerator,
        output=str(output),
        slices=question.slices,
        hosts=1,
        devices_per_host=devices,
        platform="cpu",
        coordinator="127.0.0.1:0",
        addresses=("127.0.0.1",),
        program=Program(kind="file", target=f"{target.place}:{target.function}", params=question.params),
        data={name: name for name in target.data},
        env=target.env,
        mesh=question.mesh,
        checkpoint_every=NEVER,
        grace=NEVER,
        orphan_after=None,
        join_timeout=NEVER,
        python=sys.executable,
    )


def _lay_data(target: Target, jobs: Path) -> None:
    """Where a job's staged data would be, as links to where it lies."""
    for name, source in target.data.items():
        place, data = Path(source).absolute(), jobs / layout.data(name)
        data.parent.mkdir(parents=True, exist_ok=True)
        kind = "folder" if place.is_dir() else "file"
        if kind == "folder":
            data.symlink_to(place)
        else:
            data.mkdir()
            (data / place.name).symlink_to(place)
        (jobs / manifest_name(name)).write_bytes(write_manifest(Manifest(kind=kind, name=place.name)))
