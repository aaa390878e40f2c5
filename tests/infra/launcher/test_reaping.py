"""What ended jobs left is found with its reason; live jobs, young files and strangers' are left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.launcher.reaping import STALE_SECONDS, Finding
from prefect_tpu.infra.launcher.reaping import find as find_there
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.leftovers import UNDRIVEN_SECONDS
from prefect_tpu.infra.storage import LocalStorage

ENDED = AttemptSummary(number=3, accelerator="v6e-16", started=1.0, ended=2.0, outcome="succeeded", failure=None)


@pytest.fixture
def begun(storage: LocalStorage, make_job: Callable[..., SliceJob], make_plan: Callable[..., HostPlan]) -> LocalStorage:
    history.enter(storage, make_job())
    storage.put(layout.plan(3), make_plan(attempt=3, output=storage.url).to_json())
    return storage


@pytest.fixture
def process(begun: LocalStorage) -> Iterator[subprocess.Popen[bytes]]:
    """A process that carries the mark of attempt 3."""
    environment = {**os.environ, Env.ATTEMPT: f"{begun.url}/3"}
    waits = "import sys; sys.stdout.write('here\\n'); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", waits]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as popen:
        assert popen.stdout is not None and popen.stdout.readline() == b"here\n"
        yield popen
        popen.kill()


def find(output: str) -> list[Finding]:
    return anyio.run(find_there, output)


def end(finding: Finding) -> None:
    anyio.run(finding.end)


def output_of(storage: LocalStorage) -> str:
    return str(storage.root.parent)


def test_a_process_of_an_ended_attempt(begun: LocalStorage, process: subprocess.Popen[bytes]) -> None:
    assert find(output_of(begun)) == [], "it is live"
    history.write_outcome(begun, ENDED)
    (found,) = find(output_of(begun))
    assert found.what == "1 process of attempt 3 of job 'digits'"
    assert found.why == "the attempt has ended (succeeded)"
    assert find(f"{output_of(begun)}/digi") == [], "another output"
    end(found)
    assert process.wait() == -9
    end(found)
    assert find(output_of(begun)) == []


def test_who_drives_a_job_ends_it_itself(begun: LocalStorage, process: subprocess.Popen[bytes]) -> None:
    history.write_outcome(begun, ENDED)
    assert Lease(begun, time.monotonic).take() is None
    assert find(output_of(begun)) == []


def test_a_driver_elsewhere_that_renews_its_lease_no_more_drives_no_more(
    begun: LocalStorage, process: subprocess.Popen[bytes]
) -> None:
    """Whoever was killed on another machine leaves its lease, and nobody here can see that it is dead."""
    history.write_outcome(begun, ENDED)
    begun.put(layout.LEASE, json.dumps({"token": "x", "host": "elsewhere", "pid": 1, "born": 1.0}).encode())
    assert find(output_of(begun)) == []
    long_ago = time.time() - UNDRIVEN_SECONDS - 10
    os.utime(begun.path(layout.LEASE), (long_ago, long_ago))
    (found,) = find(output_of(begun))
    assert found.why == "the attempt has ended (succeeded)"


def test_of_files_that_cannot_be_read_nothing_is_known(begun: LocalStorage, process: subprocess.Popen[bytes]) -> None:
    history.write_outcome(begun, ENDED)
    begun.put(layout.plan(3), b"{")
    assert find(output_of(begun)) == []


def test_old_halves_of_files_are_deleted_and_young_ones_not(begun: LocalStorage) -> None:
    data = begun.root.parent / layout.DATA_FOLDER / ".tmp-copy"
    data.mkdir(parents=True)
    (data / "part").touch()
    young, stranger = begun.root / ".tmp-young", begun.root.parent / "notes" / ".tmp-old"
    stranger.parent.mkdir()
    half = begun.root / "attempts/3/.tmp-half"
    for path in (young, stranger, half):
        path.touch()
    old = time.time() - 2 * STALE_SECONDS
    for path in (half, stranger, data):
        os.utime(path, (old, old))
    assert [found.what for found in find(output_of(begun))] == [str(half)], "data is still being copied"
    os.utime(data / "part", (old, old))
    found = find(output_of(begun))
    assert [finding.what for finding in found] == [str(data), str(half)]
    assert "a write that was cut short 2 h ago" in found[0].why
    for finding in found:
        end(finding)
    assert (data.exists(), half.exists(), young.exists(), stranger.exists()) == (False, False, True, True)


def old(path: Path) -> Path:
    """A file that nobody has written to for long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    moment = time.time() - 2 * STALE_SECONDS
    os.utime(path, (moment, moment))
    return path


@pytest.mark.parametrize(
    "name",
    [
        *(layout.JOB, layout.LEASE, layout.payload("a" * 64), layout.first_payload("a" * 64), layout.plan(3)),
        *(layout.outcome(3), layout.record(3, 0), layout.silence(3, 0), layout.checkpoint_seal(3, 10)),
        *(layout.ledger(3, "launcher", 0), layout.drill(0), layout.round_end(2)),
    ],
)
def test_a_write_cut_short_is_found_wherever_this_package_writes(begun: LocalStorage, name: str) -> None:
    half = old(begun.path(name).parent / f"{layout.TEMPORARY}half")
    assert [found.what for found in find(output_of(begun))] == [str(half)]


@pytest.mark.parametrize(
    "name",
    [
        f"{layout.scratch(3, 0)}/work/.tmp-mine",
        f"{layout.checkpoints(3)}/10/state/.tmp-mine",
        "plots/.tmp-mine",
        f"../{layout.data('a' * 64)}/.tmp-mine",
    ],
    ids=["working folder", "checkpoint", "output", "staged data"],
)
def test_what_is_the_programs_own_is_left_alone_whatever_it_is_called(begun: LocalStorage, name: str) -> None:
    old(begun.root / name)
    assert find(output_of(begun)) == []


def test_an_output_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert find(str(tmp_path / "none")) == []
