"""A host as a pod: from the archive, on a disk of its own, without an environment."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout, staging
from prefect_tpu.infra.contract import Env, ExitCode, Stage, StopReason, write_json
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.scratch import HostProgress, read_log
from prefect_tpu.infra.storage import open_storage

WaitUntil = Callable[..., None]

SPEAKS = """\
import os, sys, tempfile
import prefect_tpu as tpu

def main(lines=3):
    here = tpu.info()
    for number in range(lines):
        print("line", number, "of host", here.host)
        print("and an error", file=sys.stderr)
    tpu.report(7, loss=0.5)
    with tempfile.TemporaryFile(), open(os.path.expanduser("~/file"), "w"):
        pass
    return {"host": here.host, "hosts": here.hosts, "face": tpu.__file__, "python": sys.executable}
"""

WAITS = """\
import signal, sys, time
import prefect_tpu as tpu

def main(heeds=True):
    if heeds:
        signal.signal(signal.SIGTERM, leave)
    tpu.report(1)
    print("ready", flush=True)
    time.sleep(60)

def leave(number, frame):
    print("leaving")
    raise tpu.Preempted(1)
"""

COUNTS = """\
import itertools, time
import prefect_tpu as tpu

def main():
    for step in itertools.count():
        tpu.report(step)
        time.sleep(0.02)
        if (tpu.info().output / "go").exists():
            return step
"""


def value(pods: Any, host: int = 0) -> Any:
    return json.loads(pods.storage.get(layout.result(3, host)) or b"null")


def test_two_pods_run_the_program_and_bring_everything_into_the_output(pods: Any) -> None:
    plan = pods.send(SPEAKS, hosts=2)
    started = [pods.start(plan, host) for host in range(2)]
    for host, pod in enumerate(started):
        assert pod.wait() == ExitCode.DONE, pod.err
        assert pod.last_words == pods.record(host)
        assert pods.record(host).stage == Stage.LEAVING
        assert value(pods, host)["host"] == host and value(pods, host)["hosts"] == 2
        assert value(pods, host)["face"] == f"{pod.folder}/mount/host.pyz/prefect_tpu/__init__.py"
        lines = [line for n in range(3) for line in (f"line {n} of host {host}", "and an error")]
        assert pod.out.splitlines() == lines and pod.err == ""
        assert b"".join(read_log(pods.storage.get, 3, host)).decode() == pod.out
        told = HostProgress.from_json(pods.storage.get(layout.progress(3, host)))
        assert (told.progress.step, told.progress.metrics, told.joined) == (7, {"loss": 0.5}, True)
        assert b'"step": 7' in (pods.storage.get(layout.host_ledger(3, host, 0)) or b"")
    assert {Path(name).parts[3] for name in pods.storage.list("attempts/3/hosts")} == {"0", "1"}
    assert not any("scratch" in name for name in pods.storage.list("attempts"))


def test_what_the_program_raised_is_said_without_storage_too(pods: Any) -> None:
    plan = pods.send("def main(): raise ValueError('no such thing')\n")
    pod = pods.start(plan)
    assert pod.wait() == ExitCode.PROGRAM_RAISED
    assert pod.last_words.error is not None and pod.last_words.error.message == "no such thing"
    assert "ValueError: no such thing" in pod.out


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({Env.ATTEMPT: "/out/digits/4"}, "was made for /out/digits/4"),
        ({"JOB_COMPLETION_INDEX": "1"}, "This is pod 1 of slice 0"),
        ({Env.SLICE: "one"}, "must be a whole number"),
    ],
)
def test_a_plan_that_is_not_its_own_is_refused_and_nothing_is_written(
    pods: Any, changes: dict[str, str], why: str
) -> None:
    plan = pods.send(SPEAKS)
    before = pods.storage.list("attempts")
    pod = pods.start(plan, **changes)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert why in pod.err
    assert pod.last_words.error is not None and why in pod.last_words.error.message
    assert pods.storage.list("attempts") == before


def test_a_host_that_another_pod_has_begun_is_not_done(pods: Any) -> None:
    plan = pods.send(SPEAKS)
    assert pods.start(plan).wait() == ExitCode.DONE
    second = pods.start(plan)
    assert second.wait() == ExitCode.LOST_PEER
    assert second.last_words.error is not None and second.last_words.error.type == "HostTaken"
    assert pods.record().exit_code == ExitCode.DONE


def test_code_that_was_changed_is_refused(pods: Any) -> None:
    plan = pods.send(SPEAKS)
    pods.storage.put(layout.payload(plan.program.payload), b"other code")
    pod = pods.start(plan)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert pod.last_words == pods.record()


@pytest.mark.parametrize(("asked", "reason"), [(False, StopReason.NOTICE), (True, StopReason.STOP)])
def test_a_notice_reaches_the_program_and_says_whose_it_was(
    pods: Any, wait_until: WaitUntil, asked: bool, reason: StopReason
) -> None:
    pod = pods.start(pods.send(WAITS))
    wait_until(lambda: "ready" in pod.out, "a line of the program at the pod's own output")
    if asked:
        pods.storage.put(layout.STOP, write_json({}))
    pod.popen.send_signal(signal.SIGTERM)
    assert pod.wait() == (ExitCode.STOPPED if asked else ExitCode.PREEMPTED)
    assert pods.record().stop_reason == reason
    assert pod.out.splitlines() == ["ready", "leaving"]


def test_a_program_that_heeds_no_notice_is_killed_after_its_grace(pods: Any, wait_until: WaitUntil) -> None:
    plan = pods.send(WAITS.replace("signal.signal(signal.SIGTERM, leave)", "pass"), grace=0.3)
    pod = pods.start(plan, 0)
    wait_until(lambda: "ready" in pod.out, "a line of the program")
    pod.popen.send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.PREEMPTED
    assert b"".join(read_log(pods.storage.get, 3, 0)) == b"ready\n"


def test_a_program_runs_on_while_the_output_cannot_be_reached(pods: Any, wait_until: WaitUntil) -> None:
    pod = pods.start(pods.send(COUNTS))
    ledger = pods.storage.path(layout.LEDGER)
    wait_until(lambda: pods.storage.list(layout.LEDGER), "the first events")
    away = ledger.rename(ledger.with_name("away"))
    ledger.write_bytes(b"in the way")
    wait_until(lambda: "A file lies where a folder must be" in pod.err, "what the runner says of it")
    ledger.unlink()
    away.rename(ledger)
    pods.storage.put("go", b"")
    assert pod.wait() == ExitCode.DONE
    names = pods.storage.list(layout.LEDGER)
    events = [line for name in names for line in (pods.storage.get(name) or b"").splitlines()]
    assert len(names) > 1 and len(events) == len(
        (pods.folder / "disk/digits-3/0/events.jsonl").read_text().splitlines()
    )


def test_a_host_that_is_killed_leaves_what_it_said_before(pods: Any, wait_until: WaitUntil) -> None:
    pod = pods.start(pods.send(WAITS))
    wait_until(lambda: b"ready" in b"".join(read_log(pods.storage.get, 3, 0)), "the log in the output")
    pod.popen.kill()
    pod.popen.wait()
    assert b"".join(read_log(pods.storage.get, 3, 0)) == b"ready\n"
    assert pods.storage.get(layout.record(3, 0)) is None


def test_a_deleted_job_gets_no_record(pods: Any, wait_until: WaitUntil) -> None:
    pod = pods.start(pods.send(WAITS))
    wait_until(lambda: "ready" in pod.out, "a line of the program")
    pods.storage.delete(layout.plan(3))
    pod.popen.send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.PREEMPTED
    assert pods.storage.get(layout.record(3, 0)) is None


def test_a_pod_needs_nothing_but_a_bucket(pods: Any, gcs: Any, bucket: str) -> None:
    pods.output = bucket
    pod = pods.start(pods.send(SPEAKS), **gcs.environment)
    assert pod.wait() == ExitCode.DONE, pod.err
    assert pod.last_words == pods.record()
    assert value(pods)["host"] == 0
    assert b"".join(read_log(pods.storage.get, 3, 0)).decode() == pod.out
    assert pods.storage.get(layout.host_ledger(3, 0, 0))
    assert HostProgress.from_json(pods.storage.get(layout.progress(3, 0))).progress.step == 7


def test_staged_data_lies_on_the_pods_own_disk_before_its_program_starts(pods: Any, gcs: Any, bucket: str) -> None:
    pods.output = bucket
    words = pods.folder / "words"
    words.mkdir()
    (words / "a.txt").write_text("apple")
    data = {"words": staging.stage(str(words), bucket).sha256}
    program = "import prefect_tpu as tpu\ndef main(): return (tpu.info().data['words'] / 'a.txt').read_text()\n"
    pod = pods.start(pods.send(program, data=data), **gcs.environment)
    assert pod.wait() == ExitCode.DONE, pod.err + pod.out
    assert value(pods) == "apple"


def test_data_that_is_not_there_is_no_error_of_the_program(pods: Any, gcs: Any, bucket: str) -> None:
    pods.output = bucket
    pod = pods.start(pods.send(SPEAKS, data={"words": "d" * 64}), **gcs.environment)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert pod.last_words.error is not None and "is not staged" in pod.last_words.error.message
    assert pod.last_words == pods.record()


def test_data_that_is_not_what_was_staged_is_not_tried_again(pods: Any, gcs: Any, bucket: str) -> None:
    pods.output = bucket
    words = pods.folder / "words.txt"
    words.write_text("apple")
    sha256 = staging.stage(str(words), bucket).sha256
    open_storage(bucket).put(f"{layout.data(sha256)}/words.txt", b"bread")
    pod = pods.start(pods.send(SPEAKS, data={"words": sha256}), **gcs.environment)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert pod.last_words.error is not None and "somebody changed it" in pod.last_words.error.message


def test_a_plan_that_is_gone_from_its_bucket_is_refused(pods: Any, gcs: Any, bucket: str) -> None:
    pods.output = bucket
    plan = pods.send(SPEAKS)
    pods.storage.delete(layout.plan(3))
    pod = pods.start(plan, **gcs.environment)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert f"There is no plan at {bucket}/digits/attempts/3/plan.json" in pod.err


@pytest.mark.parametrize("part", ["result", "record.json", "log", "ledger"])
def test_what_a_bucket_refuses_for_a_while_arrives_at_last(pods: Any, gcs: Any, bucket: str, part: str) -> None:
    pods.output = bucket
    plan = pods.send(SPEAKS)

    def is_write_of_it(request: Any) -> bool:
        return request.method in ("POST", "PUT") and request.place is not None and part in request.place[1]

    with gcs.trouble(strikes=is_write_of_it, code=403, times=2) as trouble:
        pod = pods.start(plan, **gcs.environment)
        assert pod.wait() == ExitCode.DONE, pod.err
        assert trouble.times == 0
    assert pods.record().exit_code == ExitCode.DONE and value(pods)["host"] == 0
    assert b"".join(read_log(pods.storage.get, 3, 0)).decode() == pod.out
    assert pods.storage.get(layout.host_ledger(3, 0, 0))


def test_a_sent_function_is_read_by_what_came_along(pods: Any) -> None:
    factor = 6
    pod = pods.start(pods.send(pack_function(lambda times: factor * times, {"times": 7})))
    assert pod.wait() == ExitCode.DONE, pod.out
    assert value(pods) == 42


def test_a_secret_of_the_pod_reaches_the_program_and_nothing_that_is_written(pods: Any) -> None:
    program = "import os\ndef main():\n    assert os.environ['TOKEN'] == 'hush-7'\n"
    pod = pods.start(pods.send(program), TOKEN="hush-7")
    assert pod.wait() == ExitCode.DONE
    written = [path for path in pods.folder.rglob("*") if path.is_file() and "source" not in path.parts]
    assert not [path for path in written if b"hush-7" in path.read_bytes() and "work" not in path.parts]
