"""Hosts that do not do the same are found and named, by processes that only what they guard connects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Event, Scratch
from prefect_tpu.infra.policy.slow import slow_host
from prefect_tpu.infra.scratch import read_progress

pytestmark = [pytest.mark.slices, pytest.mark.timeout(500)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import PATIENCE, Hosts, Slice  # noqa: E402
from bare_hosts import slice_ as slice_  # noqa: E402  # a fixture, by its being here

PROGRAM = Path(__file__).with_name("guarded_program.py")
SOON = 5.0  # seconds from a difference to everybody's end


@pytest.fixture
def guarded(slice_: Slice) -> Slice:
    slice_.programs = {0: PROGRAM, 1: PROGRAM}
    return slice_


def accounts(hosts: Hosts) -> list[dict[str, Any]]:
    """What each host left for its runner."""
    codes = [process.wait(PATIENCE) for process in hosts.processes]
    found = []
    for host, code in enumerate(codes):
        path = hosts.scratch(host) / Scratch.OUTCOME
        assert path.exists(), f"host {host} ended with {code}: {hosts.log(host)}"
        found.append(contract.read_json(path.read_bytes(), "outcome"))
        assert found[-1]["exit_code"] == code
    return found


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"value_at": 3}, "Host 1 said batch=[16, 8] at step 3, and host 0 batch=[32, 8]."),
        ({"returns_at": 2}, "Host 1 came to the end of its program, where host 0 came to step 2."),
    ],
    ids=["value", "end"],
)
def test_a_host_that_does_otherwise_is_named_while_the_other_waits(
    guarded: Slice, case: dict[str, int], said: str
) -> None:
    hosts = guarded.start(guarded.plan(2, 1), "differs", **case)
    leader, odd = accounts(hosts)
    assert leader["error"]["message"].startswith(said) and odd["error"]["message"].startswith(said)
    assert {account["error"]["type"] for account in (leader, odd)} == {"HostsDiffer"}
    assert (leader["lost_peer"], odd["lost_peer"]) == (True, False)
    assert "in together" in leader["error"]["traceback"], "the leader stood in the collective"
    parted = float(hosts.log(1).partition("parted at ")[2].split()[0])
    ended = [(hosts.scratch(host) / Scratch.OUTCOME).stat().st_mtime for host in (0, 1)]
    assert max(ended) - parted < SOON


def test_a_barrier_names_who_is_missing(guarded: Slice) -> None:
    leader, other = guarded.start(guarded.plan(2, 1), "misses_a_barrier").values()
    assert leader["hosts"] == [1] and other == {"missed": True}
    assert "Barrier 'evaluated' was not reached by host 1 within 1 s. Host 1 was last at step 3." in leader["message"]
    assert 1.0 <= leader["seconds"] < 3.0


def test_who_waits_for_a_word_hears_a_signal(slice_: Slice) -> None:
    """A host that waits for another one can be told to leave, and a person may lose patience."""
    code = """
import signal, sys, time
import jax
from prefect_tpu.infra.training.board import JaxBoard

jax.distributed.initialize(sys.argv[1], 1, 0)
board = JaxBoard(jax._src.distributed.global_state.client, 0, 1)
signal.signal(signal.SIGALRM, lambda *_: print("heard", time.monotonic() - began, flush=True) or sys.exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.1)
began = time.monotonic()
board.wait("never", 60.0)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, slice_.plan(1, 1).coordinator],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    word, seconds = done.stdout.split()
    assert word == "heard" and float(seconds) < 10


def test_hosts_of_other_code_do_not_begin(guarded: Slice, tmp_path: Path) -> None:
    other = Path(shutil.copy(PROGRAM, tmp_path / PROGRAM.name))
    shutil.copy(PROGRAM.with_name("training_program.py"), tmp_path)
    other.write_text(other.read_text() + "\n# changed\n")
    guarded.programs[1] = other
    outcomes = guarded.start(guarded.plan(2, 1), "join").outcomes()
    assert {outcome["error"] for outcome in outcomes} == {"HostsDiffer"}
    assert "the code of guarded_program.py is" in outcomes[0]["message"] and "on host 1, else" in outcomes[0]["message"]


def test_hosts_record_one_run_and_show_what_they_hold_and_the_slow_one_is_known(guarded: Slice) -> None:
    plan = guarded.plan(2, 1, profile="skip=20,steps=2")
    hosts = guarded.start(plan, "reports_steps", steps=40, late=0.05)
    hosts.values()
    for host in (0, 1):
        assert [(e["first"], e["last"]) for e in hosts.events(host, Event.PROFILED)] == [(20, 21)]
        assert (guarded.output / layout.recording("attempt-1", host)).stat().st_size > 0
    found = slow_host({host: read_progress(hosts.scratch(host)) for host in (0, 1)})
    assert found is not None and (found.host, found.own_seconds > 0.05) == (1, True)
    lines = hosts.log(0).splitlines()
    held = "float32[4] over 2 devices as ('data',), of which this host holds [0:2] = [0. 1.]"
    assert f"the leader alone {held}" in lines and f"mine: {held}" in lines
    assert "all['weights']: float32[4] over 2 devices as ('data',) = [0. 1. 2. 3.]" in lines
    assert "leader" not in hosts.log(1) and "weights" not in hosts.log(1)
