"""A host that cannot begin, or shall not any more, says why: in its last words, where no storage is to be reached."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env, ExitCode, StopReason, write_json
from prefect_tpu.infra.host.signals import Notice, ToldToLeave

QUICK = "def main(): print('the program ran')\n"
LONG = QUICK + "#" * 20_000
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
FIRST_PROCESS = ("unshare", *AS_ROOT, "--pid", "--fork", "--mount-proc", "--kill-child")

# Python runs it before anything of ours: an older interpreter's version, and a signal at the first import of ours.
OLD = "import sys; sys.version_info = (3, 9, 0, 'final', 0)\n"
STRUCK = """\
import os, signal, sys

class Strikes:
    def find_spec(self, name, path=None, target=None):
        if name == "prefect_tpu.infra.host.runner":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Strikes())
"""


@pytest.fixture
def image(tmp_path: Path) -> Any:
    """Environment of a Python that does something of its own first."""

    def make(does: str) -> dict[str, str]:
        (tmp_path / "image").mkdir()
        (tmp_path / "image" / "sitecustomize.py").write_text(does)
        return {"PYTHONPATH": str(tmp_path / "image")}

    return make


def said(pod: Any) -> str:
    error = pod.last_words.error
    assert error is not None
    return str(error.message)


# -- It cannot begin -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_forbidden_bucket_will_not_open_by_itself(pods: Any, gcs: Any, bucket: str, method: str) -> None:
    pods.output = bucket
    plan = pods.send(QUICK)
    with gcs.trouble(strikes=lambda request: request.method == method, code=403):
        pod = pods.start(plan, **gcs.environment)
        assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert "it is forbidden" in said(pod) and "roles/storage.objectUser" in said(pod)
    assert said(pod) in pod.err and pod.out == ""


def test_a_plan_that_cannot_be_read_is_refused(pods: Any) -> None:
    plan = pods.send(QUICK)
    pods.storage.put(layout.plan(3), b'{"version": 1, "attem')
    pod = pods.start(plan)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert "plan.json is damaged" in said(pod)


def test_a_plan_on_a_disk_that_is_gone_is_refused(pods: Any) -> None:
    plan = pods.send(QUICK)
    pods.storage.delete(layout.plan(3))
    pod = pods.start(plan)
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert "There is no plan at" in said(pod)


def test_a_disk_that_is_full_may_have_room_another_time(pods: Any) -> None:
    """A limit of the file's size is what a test can fill."""
    pod = pods.start(pods.send(LONG), 0, "prlimit", "--fsize=10000")
    assert pod.wait() == ExitCode.CANNOT_BEGIN
    assert pod.last_words.attempt == 3
    assert said(pod).startswith("Could not unpack the payload into") and "Free some space" in said(pod)


def test_a_folder_that_cannot_be_made_is_told_too(pods: Any) -> None:
    (pods.folder / "disk").touch()
    pod = pods.start(pods.send(QUICK))
    assert pod.wait() == ExitCode.CANNOT_BEGIN
    assert "A file lies where a folder must be" in said(pod)


def test_an_old_python_says_so_in_the_log_that_becomes_its_last_words(pods: Any, image: Any) -> None:
    pod = pods.start(pods.send(QUICK), **image(OLD))
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert pod.err == "prefect-tpu: A host needs Python 3.11 or newer, and this image has 3.9. Name another image.\n"


# -- It shall not begin any more -------------------------------------------------------------------


@pytest.mark.parametrize("before", [(), FIRST_PROCESS], ids=["a process", "the first process"])
@pytest.mark.parametrize("reason", [StopReason.NOTICE, StopReason.STOP])
def test_a_notice_before_anything_of_ours_is_loaded_is_heard(
    pods: Any, image: Any, before: tuple[str, ...], reason: StopReason
) -> None:
    plan = pods.send(QUICK)
    if reason is StopReason.STOP:
        pods.storage.put(layout.STOP, write_json({}))
    pod = pods.start(plan, 0, *before, **image(STRUCK))
    assert pod.wait() == (ExitCode.STOPPED if reason is StopReason.STOP else ExitCode.PREEMPTED), pod.err
    assert pod.last_words == pods.record() and pods.record().stop_reason == reason
    assert pod.out == ""


def test_a_stop_whose_signal_nobody_heard_is_found(pods: Any) -> None:
    plan = pods.send(QUICK)
    pods.storage.put(layout.STOP, write_json({}))
    pod = pods.start(plan)
    assert pod.wait() == ExitCode.STOPPED
    assert pods.record().stop_reason == StopReason.STOP and pod.out == ""


@pytest.fixture
def notice() -> Iterator[Notice]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Notice()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_notice_ends_what_a_host_waits_for_before_its_program(notice: Notice) -> None:
    with pytest.raises(ToldToLeave), notice.interrupting():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    assert notice.is_given


def test_once_there_is_a_program_a_notice_is_for_it(notice: Notice) -> None:
    with notice.interrupting():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    assert notice.is_given
    with pytest.raises(ToldToLeave), notice.interrupting():
        pytest.fail("a notice that came before was forgotten")


def test_a_mark_of_no_attempt_is_no_reason_to_say_nothing(pods: Any) -> None:
    plan = pods.send(QUICK)
    pods.storage.put(layout.plan(3), b"[]")
    pod = pods.start(plan, **{Env.ATTEMPT: "something"})
    assert pod.wait() == ExitCode.PAYLOAD_REFUSED
    assert pod.last_words.attempt == 0 and "is not a record of prefect-tpu" in said(pod)
