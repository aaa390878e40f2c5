"""A process on its own hears SIGTERM only while it listens, and puts back what listened before."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from prefect_tpu.infra.training.preemption import OwnNotice


def test_a_notice_is_heard_and_the_handler_put_back() -> None:
    heard: list[int] = []

    def before(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    original = signal.signal(signal.SIGTERM, before)
    try:
        notice = OwnNotice()
        notice.begin()
        assert not notice.has_come(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert notice.has_come(2) and heard == []
        notice.end()
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, original)


def test_outside_the_main_thread_it_does_not_listen() -> None:
    notice, before = OwnNotice(), signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: (notice.begin(), notice.end()))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before and not notice.has_come(1)
