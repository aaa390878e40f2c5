"""From the settings of a run to a job; written down once, and begun again only where it had its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asked_runs import JOB, KEY, RUN, configured, worker_settings

from prefect_tpu.flows.work_pool.submission import NotNow, Submission, submission_of, submit
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.asked_by import AskedBy, read_asked_by
from prefect_tpu.infra.storage import LocalStorage, Storage, open_storage

ASKER = AskedBy(flow_run=str(RUN), work_pool="a-pool")
IN_CLUSTER = {"image": "trainer:1", "output": "gs://bucket/jobs"}


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with worker_settings():
        yield


# What the job is


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ({}, "name", JOB),
        ({}, "backend", "local"),
        ({}, "accelerators", ("cpu",)),
        ({}, "deadline", None),
        ({"run_timeout": 60}, "deadline", 60),
        ({"stall_timeout": 0}, "stall_timeout", None),
        ({"max_preemptions": 3}, "max_preemptions", 3),
        ({"accelerator": "v6e-16\n", "fallback_accelerators": [" v5e-16"]}, "accelerators", ("v6e-16", "v5e-16")),
        (
            {"accelerator": "v6e-16:on-demand", "fallback_accelerators": ["tpu:v5e-16"], "capacity": "spot"},
            "accelerators",
            ("v6e-16:on-demand", "tpu:v5e-16:spot"),
        ),
        (IN_CLUSTER, "backend", "jobset"),
        ({**IN_CLUSTER, "pathways_jax": "0.10.2", "accelerator": "v6e-16"}, "backend", "pathways"),
        ({**IN_CLUSTER, "accelerator": "v6e-16", "slices": 2}, "slices", 2),
        ({"accelerator": "cpu-2x2", "mesh": "data=-1,tp=2"}, "mesh", '{"data": -1, "tp": 2}'),
        ({}, "mesh", ""),
        ({"profile": "skip=3"}, "profile", "skip=3"),
    ],
)
def test_each_setting_finds_its_place(said: dict[str, Any], field: str, value: object, tmp_path: Path) -> None:
    submission = submission_of(configured(**{"output": str(tmp_path), **said}), RUN)
    job, output = submission.job, submission.output
    assert getattr(job, field) == value
    assert output == said.get("output", str(tmp_path))


def test_its_program_is_the_flow_by_the_hosts_own_interpreter_or_what_the_run_brings(tmp_path: Path) -> None:
    plain = submission_of(configured(output=str(tmp_path)), RUN).job
    assert (plain.program.kind, plain.program.target) == ("flow", "python")
    assert plain.program.arguments == ("-m", "prefect", "flow-run", "execute")
    own = submission_of(configured(output=str(tmp_path), command="uv run 'a b.py' --key 1"), RUN).job
    assert (own.program.target, own.program.arguments) == ("uv", ("run", "a b.py", "--key", "1"))


def test_pods_have_what_was_said_of_them_and_whose_they_are_told_without_labels() -> None:
    said = {"namespace": "ml", "memory": "8Gi", "labels": {"team": "vision"}, "secrets": {"TOKEN": "tokens/key"}}
    job = submission_of(configured(**IN_CLUSTER, **said), RUN).job
    assert job.pods is not None
    assert (job.pods.namespace, job.pods.memory, job.pods.labels) == ("ml", "8Gi", {"team": "vision"})
    assert job.pods.annotations["prefect.io/flow-run-id"] == str(RUN)
    assert job.pods.secrets["TOKEN"] == "tokens/key"
    assert job.pods.secrets[Env.REGION_KEY] == f"{JOB}-run/region-key"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"accelerator": "v6e-15"}, "v6e-16"),
        ({"backend": "jobset", "output": "gs://bucket/jobs"}, "need an image"),
        ({"backend": "local", "image": "trainer:1"}, "has no pods"),
        ({"output": "gs://bucket/jobs"}, "no folder of this machine"),
        ({**IN_CLUSTER, "memory": "much"}, "Kubernetes quantity"),
        ({"slices": "two"}, "slices is 'two'"),
        ({"mesh": "wide"}, "mesh is 'wide': Mesh 'wide' cannot be read"),
        ({"accelerator": "cpu-2x1", "mesh": "tp=4"}, "cpu-2x1"),
        ({"profile": "all"}, "profile is 'all': Profile 'all' names no steps: write skip=N,steps=M"),
        ({"command": "echo 'half"}, "cannot be read"),
        ({"command": " "}, "empty"),
        ({**IN_CLUSTER, "env": {"TOKEN": "plain"}, "secrets": {"TOKEN": "tokens/key"}}, "'TOKEN'"),
        ({**IN_CLUSTER, "pathways": {"no_such": 1}}, "no_such"),
        ({"ttl": 60}, "need an image.* Only pods of a cluster have ttl"),
    ],
)
def test_what_no_job_can_be_made_of_is_told_with_what_to_change(said: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        submission_of(configured(**{"output": str(tmp_path), **said}), RUN)


# What nobody may read


@pytest.mark.parametrize("env", [{"A=B": "s3cr3t"}, {"A": "s3cr3t\0"}])
def test_what_no_process_takes_is_refused_of_secret_variables_too_and_not_shown(
    env: dict[str, str], tmp_path: Path
) -> None:
    asked = configured(output=str(tmp_path), env=env)
    asked._hidden = frozenset(env)
    with pytest.raises(UsageError, match=next(iter(env))) as refused:
        submission_of(asked, RUN)
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize("said", [IN_CLUSTER, {}], ids=["cluster", "local"])
def test_the_server_s_key_stands_in_no_job(said: dict[str, Any], tmp_path: Path) -> None:
    submission = submission_of(configured(**{"output": str(tmp_path), **said}), RUN)
    assert KEY.encode() not in submission.job.to_json()
    assert submission.job.env["PREFECT_API_URL"] == "http://server:4200/api"
    assert submission.job.env["PREFECT__FLOW_RUN_ID"] == str(RUN)


def test_in_a_cluster_it_comes_from_the_run_s_secret_and_what_is_the_worker_s_alone_stays_there() -> None:
    submission = submission_of(configured(**IN_CLUSTER), RUN)
    assert submission.secret == {"PREFECT_API_KEY": KEY}
    assert submission.job.pods and submission.job.pods.secrets["PREFECT_API_KEY"] == f"{JOB}-run/PREFECT_API_KEY"
    assert "PREFECT_HOME" not in submission.job.env


def test_a_secret_of_the_cluster_s_own_takes_the_worker_s_place() -> None:
    said = {"secrets": {"PREFECT_API_KEY": "prefect-api/key", "PREFECT_API_URL": "prefect-api/url"}}
    submission = submission_of(configured(**IN_CLUSTER, **said), RUN)
    assert submission.secret == {} and "PREFECT_API_URL" not in submission.job.env
    assert submission.job.pods and submission.job.pods.secrets["PREFECT_API_KEY"] == "prefect-api/key"


# How it is written down


@asynccontextmanager
async def held(folder: str) -> AsyncIterator[Storage | None]:
    yield open_storage(folder)


@asynccontextmanager
async def held_by_another(folder: str) -> AsyncIterator[Storage | None]:
    yield None


async def wanted() -> bool:
    return True


async def unwanted() -> bool:
    return False


def hand_in(
    submission: Submission, holds: Callable[[str], Any] = held, is_wanted: Callable[[], Awaitable[bool]] = wanted
) -> Storage:
    asyncio.run(submit(submission, ASKER, holds, is_wanted))
    return open_storage(submission.folder)


@pytest.fixture
def asked(tmp_path: Path) -> Submission:
    return submission_of(configured(output=str(tmp_path / "jobs")), RUN)


def end(storage: Storage, state: str) -> None:
    result = JobResult(job=JOB, state=state, attempts=(), output=storage.url, value=None, failure=None)
    history.write_result(storage, result)


def test_it_is_written_with_all_that_its_hosts_need(asked: Submission) -> None:
    storage = hand_in(replace(asked, secret={"TOKEN": KEY}))
    assert history.read_job(storage) == asked.job and read_asked_by(storage) == ASKER
    assert isinstance(storage, LocalStorage)
    for name in (layout.REGION_KEY, layout.SECRETS):
        assert os.stat(storage.path(name)).st_mode & 0o077 == 0
    holding = [name for name in storage.children("") if KEY.encode() in (storage.get(name) or b"")]
    assert holding == [layout.SECRETS]


def test_submitted_again_while_it_lives_it_is_left_as_it_is(asked: Submission) -> None:
    storage = hand_in(asked)
    key = storage.get(layout.REGION_KEY)
    hand_in(replace(asked, job=replace(asked.job, grace=99.0)), holds=held_by_another)
    assert history.read_job(storage) == asked.job and storage.get(layout.REGION_KEY) == key


@pytest.mark.parametrize("state", ["failed", "stopped", "succeeded"])
def test_one_that_has_its_end_goes_on_with_the_settings_of_now(asked: Submission, state: str) -> None:
    end(hand_in(asked), state)
    storage = hand_in(replace(asked, job=replace(asked.job, max_preemptions=2)))
    assert history.read_result(storage) is None
    assert (job := history.read_job(storage)) and job.max_preemptions == 2


def test_what_is_cleared_up_after_an_end_while_it_is_begun_again_is_kept_anew(asked: Submission) -> None:
    @asynccontextmanager
    async def cleared(folder: str) -> AsyncIterator[Storage | None]:
        storage = open_storage(folder)
        storage.delete(layout.SECRETS)
        yield storage

    with_token = replace(asked, secret={"TOKEN": KEY})
    end(hand_in(with_token), "failed")
    assert KEY.encode() in (hand_in(with_token, holds=cleared).get(layout.SECRETS) or b"")


def test_one_that_has_its_end_stays_so_where_its_run_was_begun_elsewhere(asked: Submission) -> None:
    end(hand_in(asked), "succeeded")
    assert history.read_result(hand_in(asked, is_wanted=unwanted)) is not None


def test_one_that_is_being_stopped_or_ended_comes_later(asked: Submission) -> None:
    storage = hand_in(asked)
    history.ask_to_stop(storage, "cancelled")
    with pytest.raises(NotNow, match="is being stopped"):
        hand_in(asked)
    end(storage, "stopped")
    with pytest.raises(NotNow, match="Another process"):
        hand_in(asked, holds=held_by_another)
    hand_in(asked)
    assert not history.is_stop_asked(storage) and history.read_result(storage) is None
