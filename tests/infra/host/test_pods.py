"""Pods that have JAX and nothing of ours train what the local backend trains, to the same bit."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ExitCode, StopReason
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.scratch import HostProgress

pytestmark = pytest.mark.slices

WaitUntil = Callable[..., None]
CLONE = Path(__file__).parents[3]
EXAMPLE = CLONE / "docs" / "examples"


@pytest.fixture
def pods_with_jax(pods: Any) -> Any:
    """Pods whose image has JAX, Orbax and nothing of ours."""
    image = Path(os.environ.get("PREFECT_TPU_POD_VENV") or CLONE / ".venv-pod")
    assert (image / "pyvenv.cfg").exists(), f"The Python environment of pods is not there ({image}): make setup-pod"
    pods.python = str(image / "bin" / "python")
    return pods


def asked(output: Path, **params: Any) -> Any:
    return prepare(
        Request(
            name="digits",
            program=f"{EXAMPLE}/digits.py:main",
            accelerators=("cpu-2x2",),
            output=str(output),
            data={"digits": str(EXAMPLE / "data" / "digits.csv.gz")},
            params={"steps": 120, **params},
        )
    )


def send(pods: Any, job: Any, number: int, port: int, restore: RestorePoint | None = None) -> Any:
    """The plan of an attempt of two pods, each with an address of its own as a name service would give it."""
    plan = pods.make_plan(
        2,
        attempt=number,
        accelerator="cpu-2x2",
        output=str(pods.storage.root),
        scratch=str(pods.folder / "disk"),
        backend="jobset",
        orphan_after=None,
        devices_per_host=2,
        coordinator=f"localhost:{port}",
        addresses=("localhost",) * 2,
        program=job.program,
        data=job.data,
        restore=restore,
        python="python3",
    )
    pods.storage.put(layout.plan(number), plan.to_json())
    return plan


def value(pods: Any, number: int) -> Any:
    return json.loads(pods.storage.get(layout.result(number, 0)) or b"null")


def on_this_machine(machine: Any) -> Any:
    """What the local backend's hosts return."""
    job, path = asked(machine.output), machine.folder / "job.json"
    path.write_bytes(job.to_json())
    drive = CLONE / "tests" / "programs" / "drive.py"
    return machine.start(sys.executable, "-P", drive, path, machine.output / job.name).result()["value"]


def test_two_pods_learn_the_digits_like_two_hosts_of_this_machine(
    pods_with_jax: Any, machine: Any, free_port: Callable[[], int], wait_until: WaitUntil
) -> None:
    pods = pods_with_jax
    job = asked(pods.folder / "out", step_seconds=0.02)
    first = [pods.start(send(pods, job, 1, free_port()), host) for host in range(2)]

    def told() -> int:
        return HostProgress.from_json(pods.storage.get(layout.progress(1, 0))).progress.step or 0

    wait_until(lambda: told() > 5, "steps that are told in the output", 60)
    first[1].popen.send_signal(signal.SIGTERM)
    assert [pod.wait() for pod in first] == [ExitCode.PREEMPTED] * 2, first[0].out
    assert first[1].last_words.stop_reason == StopReason.NOTICE
    saved = first[0].last_words.progress.saved_step
    assert saved is not None and saved == first[1].last_words.progress.saved_step

    port = free_port()
    plan = send(pods, job, 2, port, RestorePoint(attempt=1, step=saved))
    second = [pods.start(plan, host) for host in range(2)]
    assert [pod.wait() for pod in second] == [ExitCode.DONE] * 2, second[0].out
    assert value(pods, 2) == on_this_machine(machine)


ORPHANS = """\
import os, subprocess, time

def main():
    assert os.getppid() == 1
    orphan = int(subprocess.check_output(["sh", "-c", "sleep 0.1 >&- & echo $!"]))
    give_up = time.monotonic() + 20
    while os.path.exists(f"/proc/{orphan}") and time.monotonic() < give_up:
        time.sleep(0.01)
    is_gone = not os.path.exists(f"/proc/{orphan}")
    subprocess.Popen(["sh", "-c", "setsid sleep 600 &"])
    print("ready", flush=True)
    time.sleep(60 if os.environ.get("WAITS") else 0)
    return is_gone
"""
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
FIRST_PROCESS = ("unshare", *AS_ROOT, "--pid", "--fork", "--mount-proc", "--kill-child")


def runner_below(pod: Any) -> psutil.Process:
    """The runner, which in its own namespace is process 1."""
    (runner,) = psutil.Process(pod.popen.pid).children()
    return runner


def test_as_the_first_process_it_lets_orphans_go_and_leaves_none(pods: Any) -> None:
    pod = pods.start(pods.send(ORPHANS), 0, *FIRST_PROCESS)
    assert pod.wait() == ExitCode.DONE, pod.err
    assert value(pods, 3) is True


def test_as_the_first_process_it_hears_a_notice(pods: Any, wait_until: WaitUntil) -> None:
    pod = pods.start(pods.send(ORPHANS), 0, *FIRST_PROCESS, WAITS="1")
    wait_until(lambda: "ready" in pod.out, "the program's line")
    runner_below(pod).send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.PREEMPTED
    assert pods.record().stop_reason == StopReason.NOTICE
