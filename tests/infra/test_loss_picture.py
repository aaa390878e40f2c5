"""The loss is drawn where there is one, and a picture that cannot be drawn spoils no end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.loss_picture import LEADER, PICTURE, draw_loss
from prefect_tpu.infra.storage import LocalStorage


def result(output: str) -> JobResult:
    """Of one attempt."""
    one = AttemptSummary(number=1, accelerator="cpu", started=1.0, ended=2.0, outcome="succeeded", failure=None)
    return JobResult(job="digits", state="succeeded", attempts=(one,), output=output, value=None, failure=None)


def test_a_loss_is_drawn(storage: LocalStorage) -> None:
    lines = [f'{{"event":"step","step":{step},"loss":{1 / (step + 1)}}}\n' for step in range(3)]
    storage.put(layout.ledger(1, LEADER, 0), "".join(lines).encode())
    picture = draw_loss(result(storage.url))
    assert picture is not None and picture.where == str(storage.path(PICTURE))
    assert picture.png.startswith(b"\x89PNG") and storage.get(PICTURE) == picture.png


def test_no_picture_without_a_finite_loss(storage: LocalStorage) -> None:
    assert draw_loss(result(storage.url)) is None
    lines = [
        '{"event":"step","step":1,"accuracy":1.0}', '{"event":"step","step":2,"loss":NaN}', '{"event":"joined"}',
        '{"event":"step","step":"a","loss":1.0}', '{"event":"step","step":3,"loss":[]}', '{"event":"step","loss":1}',
        "[]", '"text"', "", '{"event":"st',
    ]  # fmt: skip
    storage.put(layout.ledger(1, LEADER, 0), "\n".join(lines).encode() + b"\xff\n")
    assert draw_loss(result(storage.url)) is None
    assert not storage.path(PICTURE).exists()


@pytest.mark.parametrize(("metric", "is_loaded"), [("loss", True), ("accuracy", False)])
def test_what_draws_is_loaded_at_the_first_loss(metric: str, is_loaded: bool) -> None:
    code = f"""if True:
        import sys, threading
        from prefect_tpu.infra.contract import Progress
        from prefect_tpu.infra.launcher.news import News
        from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation
        from prefect_tpu.infra.loss_picture import drawing_ahead
        heard = []
        listen = drawing_ahead(heard.append)
        progress = Progress(step=1, metrics={{{metric!r}: 0.5}})
        host = HostObservation(host=0, phase=HostPhase.RUNNING, progress=progress)
        seen = Observation(attempt=1, hosts=(host,))
        for observation in (None, seen, seen):
            listen(News(job="j", state=JobState.RUNNING, attempt=1, observation=observation))
        threads = [thread for thread in threading.enumerate() if thread.name == "drawing"]
        for thread in threads: thread.join()
        print(len(heard), "matplotlib.figure" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["3", str(is_loaded)]


def test_a_picture_that_the_disk_refuses_does_not_spoil_the_end(storage: LocalStorage) -> None:
    storage.put(layout.ledger(1, LEADER, 0), b'{"event":"step","step":1,"loss":0.5}\n')
    storage.put(f"{PICTURE}/in-the-way", b"")
    assert draw_loss(result(storage.url)) is None


@pytest.mark.parametrize("points", [[(10**400, 0.5)], [(1, 1e308), (2, -1e308)]], ids=["step", "loss"])
def test_numbers_beyond_any_axis_do_not_spoil_the_end(storage: LocalStorage, points: list[tuple[int, float]]) -> None:
    lines = [f'{{"event":"step","step":{step},"loss":{loss}}}\n' for step, loss in points]
    storage.put(layout.ledger(1, LEADER, 0), "".join(lines).encode())
    assert draw_loss(result(storage.url)) is None
