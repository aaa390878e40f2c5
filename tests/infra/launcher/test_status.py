"""A job's folder says how it stands, whoever looks and whether anybody drives it."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from counting import Counting

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Activity, ContractError, ExitCode, HostRecord, Progress, Scratch
from prefect_tpu.infra.errors import FailureKind, NoSuchJob
from prefect_tpu.infra.job import AttemptSummary, JobResult, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.launcher.status import StatusReader, pause_between_looks, read_status
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.state import FINAL, HostPhase, JobState
from prefect_tpu.infra.storage import LocalStorage, Storage, open_storage

LOST = failure(FailureKind.HOST_LOST, "Host 1 is gone.", host=1)


class Folder:
    """A job's folder, laid down with the functions that the product uses."""

    def __init__(self, storage: Storage, make_job: Callable[..., SliceJob], make_plan: Callable[..., HostPlan]):
        self.storage, self._make_job, self._make_plan = storage, make_job, make_plan

    def asked(self, **changes: Any) -> None:
        history.enter(self.storage, self._make_job(**changes))

    def planned(self, attempt: int, hosts: int = 2, **changes: Any) -> None:
        self.storage.put(layout.plan(attempt), self._make_plan(attempt=attempt, hosts=hosts, **changes).to_json())

    def started(self, attempt: int, host: int) -> None:
        self.storage.put(layout.started(attempt, host), contract.write_json({"pid": os.getpid()}))

    def reported(self, attempt: int, host: int, **progress: Any) -> None:
        name = f"{layout.scratch(attempt, host)}/{Scratch.PROGRESS}"
        self.storage.put(name, contract.write_json(progress))

    def recorded(self, attempt: int, host: int, code: int, **values: Any) -> None:
        record = HostRecord(attempt=attempt, host=host, exit_code=code, **values)
        self.storage.put(layout.record(attempt, host), record.to_json())

    def ended(self, attempt: int, outcome: str = "host_lost", **values: Any) -> AttemptSummary:
        cause = None if outcome == "succeeded" else LOST
        summary = AttemptSummary(
            number=attempt, accelerator="v6e-16", started=1.0, ended=2.0, outcome=outcome, failure=cause, **values
        )
        history.write_outcome(self.storage, summary)
        return summary

    def state(self) -> JobState:
        return read_status(self.storage.url).state


@pytest.fixture
def folder(storage: LocalStorage, make_job: Callable[..., SliceJob], make_plan: Callable[..., HostPlan]) -> Folder:
    return Folder(storage, make_job, make_plan)


def test_where_no_job_is_there_is_no_status(tmp_path: Path) -> None:
    with pytest.raises(NoSuchJob, match="There is no job in /.*nowhere"):
        read_status(str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_a_job_goes_through_its_states(folder: Folder) -> None:
    folder.asked()
    states = [folder.state()]
    folder.planned(1)
    states.append(folder.state())
    for host in (0, 1):
        folder.started(1, host)
        states.append(folder.state())
        folder.reported(1, host, step=3)
    states.append(folder.state())
    folder.ended(1, saved_step=2)
    states.append(folder.state())
    history.ask_to_stop(folder.storage, "enough")
    states.append(folder.state())
    assert [state.value for state in states] == [
        "queued",
        "starting",
        "starting",
        "starting",
        "running",
        "backing_off",
        "stopping",
    ]


def test_a_flow_runs_once_its_hosts_are_there_for_they_meet_in_regions_alone(folder: Folder) -> None:
    program = Program(kind="flow", target="python", arguments=("flows.py",))
    folder.asked(program=program)
    folder.planned(1, program=program)
    folder.started(1, 0)
    assert folder.state() is JobState.STARTING
    folder.started(1, 1)
    assert folder.state() is JobState.RUNNING


def test_hosts_of_an_attempt_that_ended_are_not_told_while_the_next_one_is_waited_for(folder: Folder) -> None:
    folder.asked()
    folder.planned(1)
    folder.started(1, 0)
    assert len(read_status(folder.storage.url).hosts) == 2
    folder.ended(1)
    assert read_status(folder.storage.url).hosts == ()


def test_a_live_attempt_is_told_host_by_host(folder: Folder) -> None:
    folder.asked(program=Program(kind="module", target="m:f", params={"steps": 60}))
    folder.planned(1, hosts=4)
    folder.ended(1, last_step=20, saved_step=18)
    folder.planned(2, hosts=4)
    for host in (0, 1, 2):
        folder.started(2, host)
    folder.reported(2, 0, step=41, first_step=19, metrics={"loss": math.nan, "rate": 0.5})
    silence = {"silent_for": 40.5, "activity": "compiling", "step": 40, "reported_after": 9.0}
    folder.storage.put(layout.silence(2, 1), contract.write_json(silence))
    folder.recorded(2, 2, ExitCode.PREEMPTED, joined_after=1.0, stop_reason="notice", progress=Progress(saved_step=40))
    seen = read_status(folder.storage.url)
    assert (seen.attempt, seen.accelerator, seen.steps, seen.step, seen.saved_step) == (2, "v6e-16", 60, 41, 40)
    assert [host.phase.value for host in seen.hosts] == ["running", "running", "ended", "pending"]
    assert [host.joined for host in seen.hosts] == [True, False, True, False]
    assert (seen.hosts[1].silent_seconds, seen.hosts[1].activity) == (40.5, Activity.COMPILING)
    assert (seen.hosts[2].exit_code, seen.hosts[2].stop_reason) == (ExitCode.PREEMPTED, "notice")
    assert [attempt.number for attempt in seen.attempts] == [1]
    told = json.loads(json.dumps(seen.to_json(), allow_nan=False))
    assert told["hosts"][0]["metrics"] == {"loss": "nan", "rate": 0.5} and told["hosts"][0]["step"] == 41
    assert told["hosts"][1]["activity"] == "compiling" and told["state"] == "starting"


def test_a_host_that_has_reported_nothing_for_long_is_silent_before_its_runner_looks(folder: Folder) -> None:
    folder.asked()
    folder.planned(1)
    for host in (0, 1):
        folder.started(1, host)
    folder.reported(1, 0, step=3)
    assert read_status(folder.storage.url).hosts[0].silent_seconds is None
    hour_ago = time.time() - 3600.0
    os.utime(folder.storage.path(f"{layout.scratch(1, 0)}/{Scratch.PROGRESS}"), (hour_ago, hour_ago))
    silent, never = read_status(folder.storage.url).hosts
    assert silent.silent_seconds == pytest.approx(3600.0, abs=60.0) and silent.activity is None
    assert never.silent_seconds is None, "only the leader of many a program reports"
    folder.storage.put(layout.silence(1, 0), contract.write_json({"silent_for": 40.5}))
    told_once = read_status(folder.storage.url).hosts[0]
    assert told_once.silent_seconds == pytest.approx(3600.0, abs=60.0), "a runner's word grows old"


def test_an_attempt_without_a_report_stands_where_the_one_before_it_saved(folder: Folder) -> None:
    folder.asked()
    folder.planned(1)
    folder.ended(1, last_step=20, saved_step=18)
    assert (read_status(folder.storage.url).step, read_status(folder.storage.url).saved_step) == (None, 18)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_the_end_is_what_the_job_said(folder: Folder, state: JobState) -> None:
    folder.asked()
    folder.planned(1)
    cause = None if state is JobState.SUCCEEDED else LOST
    attempts = (folder.ended(1, "succeeded" if cause is None else "host_lost"),)
    end = JobResult(
        job="digits", state=state.value, attempts=attempts, output=folder.storage.url, value=[1], failure=cause
    )
    history.write_result(folder.storage, end)
    seen = read_status(folder.storage.url)
    assert (seen.state, seen.failure, seen.value, seen.attempts) == (state, cause, [1], attempts)
    assert not seen.is_abandoned
    assert json.loads(json.dumps(seen.to_json()))["state"] == state


def test_the_driver_is_named_while_it_lives(folder: Folder) -> None:
    folder.asked()
    assert read_status(folder.storage.url).driver is None and read_status(folder.storage.url).is_abandoned
    lease = Lease(folder.storage, lambda: 0.0)
    assert lease.take() is None
    assert read_status(folder.storage.url).driver == f"process {os.getpid()} on {socket.gethostname()}"
    assert not read_status(folder.storage.url).is_abandoned
    dead = {"token": "t", "host": socket.gethostname(), "pid": os.getpid(), "born": -9.0}
    folder.storage.put(layout.LEASE, json.dumps(dead).encode())
    assert read_status(folder.storage.url).driver is None


def test_a_record_that_cannot_be_read_leaves_its_host_ended_with_the_reason(folder: Folder) -> None:
    folder.asked()
    folder.planned(1)
    folder.storage.put(layout.record(1, 0), b'{"version": 1')
    host = read_status(folder.storage.url).hosts[0]
    assert (host.phase, host.exit_code) == (HostPhase.ENDED, None) and "damaged" in host.reason


def test_damage_to_the_job_itself_names_the_file(folder: Folder) -> None:
    folder.storage.put(layout.JOB, b"{")
    with pytest.raises(ContractError, match=r"job\.json is damaged.*The file is /"):
        read_status(folder.storage.url)


def test_a_job_began_with_its_first_file_and_changed_with_its_last(folder: Folder) -> None:
    folder.asked()
    os.utime(folder.storage.path(layout.JOB), (100.0, 100.0))
    assert (read_status(folder.storage.url).began, read_status(folder.storage.url).changed) == (100.0, 100.0)
    folder.planned(1)
    os.utime(folder.storage.path(layout.plan(1)), (150.0, 150.0))
    folder.reported(1, 0, step=1)
    os.utime(folder.storage.path(f"{layout.scratch(1, 0)}/{Scratch.PROGRESS}"), (200.0, 200.0))
    assert (read_status(folder.storage.url).began, read_status(folder.storage.url).changed) == (100.0, 200.0)


@pytest.fixture
def cloud(bucket: str, make_job: Callable[..., SliceJob], make_plan: Callable[..., HostPlan]) -> Folder:
    """A job's folder in a bucket; its hosts have disks of their own."""
    storage = open_storage(f"{bucket}/jobs/digits")
    return Folder(storage, make_job, lambda **changes: make_plan(scratch="/scratch", **changes))


def told(folder: Folder, attempt: int, host: int, joined: bool = True, **progress: Any) -> None:
    """What a runner tells of its host's disk."""
    said = HostProgress(progress=Progress(**progress), joined=joined)
    folder.storage.put(layout.progress(attempt, host), said.to_json())


def test_hosts_with_disks_of_their_own_are_known_by_what_their_runners_tell(cloud: Folder) -> None:
    cloud.asked()
    cloud.planned(1, hosts=4)
    for host in (0, 1, 2):
        cloud.started(1, host)
    told(cloud, 1, 0, step=41, first_step=19, metrics={"loss": 0.5})
    told(cloud, 1, 1)
    told(cloud, 1, 2, joined=False)
    cloud.recorded(1, 2, ExitCode.PREEMPTED, stop_reason="notice", progress=Progress(saved_step=40))
    seen = read_status(cloud.storage.url)
    assert (seen.state, seen.step, seen.saved_step) == (JobState.STARTING, 41, 40)
    assert [host.phase.value for host in seen.hosts] == ["running", "running", "ended", "pending"]
    assert [host.joined for host in seen.hosts] == [True, True, False, False]
    assert seen.hosts[0].progress.metrics == {"loss": 0.5}
    assert time.time() - 60.0 < seen.changed < time.time() + 60.0


def test_only_what_has_changed_is_read_again(cloud: Folder) -> None:
    cloud.asked()
    cloud.planned(1, hosts=2)
    for host in (0, 1):
        cloud.started(1, host)
        told(cloud, 1, host, step=1)
    counting = Counting(cloud.storage)
    reader = StatusReader(counting)
    assert reader.read().step == 1
    counting.questions()
    told(cloud, 1, 1, step=2)
    assert reader.read().step == 2
    asked = counting.questions()
    assert [question for question in asked if "hosts" in question] == [
        *("facts attempts/1/hosts", "get attempts/1/hosts/1/progress.json"),
    ]
    assert len(asked) <= 10


def test_of_a_bucket_nobody_asks_several_times_a_second(cloud: Folder, folder: Folder) -> None:
    assert pause_between_looks(cloud.storage, 0.2) == 2.0 and pause_between_looks(cloud.storage, 5.0) == 5.0
    assert pause_between_looks(folder.storage, 0.2) == 0.2
