"""Failures of what runs in a pod: the program, its runner, its time and its memory."""

from __future__ import annotations

import os
import signal

import by_jobset
from case import Case, nothing
from cases_platform import as_it_is
from control_plane import Object
from ours import JOB
from stage import Stage

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.gcp import names
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import open_storage

# Memory that is written to, and then held.
_FILL = "python -c 'import time; x = b\"x\" * (400 * 2**20); time.sleep(60)'"
MEMORY = "200Mi"
# A program on a machine without chips: JAX sees the processor.
WITHOUT_CHIPS = {"JAX_PLATFORMS": "cpu"}


def _little_memory(pod: Object) -> None:
    pod["containers"][0]["resources"]["limits"]["memory"] = MEMORY


def _kill(stage: Stage, jobset: str) -> None:
    os.kill(stage.process(jobset, ("sh", "-c")), signal.SIGKILL)


def _kill_runner(stage: Stage, jobset: str) -> None:
    """What a container runs: our runner, or of a plain JobSet the program itself."""
    words = ("sh", "-c") if jobset == by_jobset.NAME else ("python", names.ARCHIVE_FILE)
    os.kill(stage.process(jobset, words), signal.SIGKILL)


def _stop(stage: Stage, jobset: str) -> None:
    history.ask_to_stop(open_storage(str(stage.folder / "jobs")).inside(JOB), "asked by the test")


ERROR = dict(kind=FailureKind.PROGRAM_ERROR, is_retryable=False)
CASES = (
    Case(
        name="oom-killed",
        title="The container passes its memory limit",
        kind=FailureKind.OUT_OF_MEMORY,
        is_retryable=False,
        act=_FILL,
        pods={"memory": MEMORY},
        change_plain=_little_memory,
    ),
    Case(
        name="resource-exhausted",
        title="The program's own RESOURCE_EXHAUSTED",
        kind=FailureKind.OUT_OF_MEMORY,
        is_retryable=False,
        function="uses_up_memory",
        settings={"env": WITHOUT_CHIPS},
    ),
    Case(
        name="raises",
        title="The program raises on one host",
        kind=FailureKind.PROGRAM_ERROR,
        is_retryable=False,
        function="raises",
    ),
    Case(name="exit-3", title="The program exits with 3 on one host", act="exit 3", change_plain=as_it_is, **ERROR),
    Case(name="segfault", title="The program dies of a segmentation fault", act="kill -SEGV $$", **ERROR),
    Case(
        name="program-killed",
        title="The program is killed from outside (SIGKILL)",
        kind=FailureKind.HOST_LOST,
        is_retryable=True,
        strike=_kill,
        change_plain=as_it_is,
        is_quick=True,
    ),
    Case(
        name="runner-killed",
        title="The host's runner is killed (SIGKILL)",
        kind=FailureKind.HOST_LOST,
        is_retryable=True,
        strike=_kill_runner,
        change_plain=as_it_is,
        is_quick=True,
    ),
    Case(
        name="deadline",
        title="The attempt passes its deadline",
        kind=FailureKind.DEADLINE,
        is_retryable=False,
        settings={"deadline": 4.0},
        strike=nothing,
    ),
    Case(name="stopped", title="A person stops the job", kind=FailureKind.STOPPED, is_retryable=False, strike=_stop),
    Case(
        name="stalled",
        title="No host makes a step for `stall_timeout` (3 s here)",
        kind=FailureKind.STALLED,
        is_retryable=True,
        function="stands_still",
        settings={"stall_timeout": 3.0},
    ),
    Case(
        name="never-joins",
        title="One host never joins within `join_timeout` (5 s here)",
        kind=FailureKind.COULD_NOT_JOIN,
        is_retryable=True,
        function="does_not_join",
        settings={"join_timeout": 5.0, "env": WITHOUT_CHIPS},
    ),
    Case(
        name="wrong-topology",
        title="The slice has other devices than its accelerator's",
        kind=FailureKind.WRONG_TOPOLOGY,
        is_retryable=False,
        function="joins",
        settings={"env": {**WITHOUT_CHIPS, "JAX_NUM_CPU_DEVICES": "3"}},
    ),
    Case(
        name="payload-changed",
        title="The code in the output is not what was sent",
        kind=FailureKind.REFUSED,
        is_retryable=False,
        function="raises",
        spoil=True,
        waits_for="nothing",
        strike=nothing,
    ),
)
