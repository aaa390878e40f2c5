"""Who follows a job that another process drives hears what its driver would tell."""

from __future__ import annotations

from dataclasses import replace

from prefect_tpu.flows.shell.following import changes, follow_while_driven
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.host_status import HostStatus
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.status import JobStatus
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import HostPhase, JobState
from prefect_tpu.infra.storage import LocalStorage

HOST = HostStatus(host=0, phase=HostPhase.RUNNING)
BEGUN = JobStatus(
    name="digits",
    output="/out/digits",
    state=JobState.STARTING,
    attempt=1,
    accelerator="v6e-16",
    accelerators=("v6e-16",),
    steps=None,
    driver="process 7 on there",
    hosts=(HOST, replace(HOST, host=1)),
    attempts=(),
    failure=None,
    value=None,
    began=0.0,
    changed=0.0,
)
LOST = AttemptSummary(
    number=1,
    accelerator="v6e-16",
    started=0.0,
    ended=1.0,
    outcome="host_lost",
    failure=failure(FailureKind.HOST_LOST, "Host 1 is gone.", host=1),
)


def test_what_is_told_between_two_looks() -> None:
    running = replace(BEGUN, state=JobState.RUNNING)
    second = replace(BEGUN, attempt=2, accelerator="cpu", hosts=(HOST,), attempts=(LOST,))
    stopping = replace(second, state=JobState.STOPPING)
    ended = replace(stopping, attempts=(LOST, replace(LOST, number=2, outcome="succeeded", failure=None)))
    told = [
        list(changes(before, seen))
        for before, seen in [
            (None, BEGUN),
            (BEGUN, BEGUN),
            (BEGUN, running),
            (running, second),
            (second, stopping),
            (stopping, ended),
        ]
    ]
    assert told == [
        [(1, "driven by process 7 on there; following it")],
        [],
        [(1, "all hosts have met")],
        [(1, "host_lost: Host 1 is gone."), (2, "cpu: 1 host")],
        [(2, "stopping: the hosts save and leave")],
        [(2, "ended with its result")],
    ]


def test_a_job_that_nobody_drives_is_not_waited_for(tmp_path: object) -> None:
    storage = LocalStorage(f"{tmp_path}/digits")
    program = Program(kind="module", target="m:f")
    history.enter(storage, SliceJob(name="digits", program=program, accelerators=("cpu",)))
    heard: list[News] = []
    follow_while_driven(storage, heard.append, lambda seen: None)
    assert heard == []
