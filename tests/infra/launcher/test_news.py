"""What a driver tells: each thing once, and of a wait how long it lasts, each minute."""

from __future__ import annotations

from prefect_tpu.infra.launcher.news import Announcer, News


def test_a_wait_is_explained_on_each_change_and_each_minute() -> None:
    heard: list[News] = []
    announcer = Announcer("digits", heard.append)
    for seconds, reason in [(0.0, "16 chips are in use"), (59.0, "16 chips are in use"), (61.0, "16 chips are in use"),
                            (100.0, "the pool grows"), (119.9, "the pool grows"), (7200.0, "the pool grows")]:  # fmt: skip
        announcer.waits(3, reason, seconds)
    assert [(news.attempt, news.text) for news in heard] == [
        (3, "waiting for a slice: 16 chips are in use"),
        (3, "waiting for a slice for 1 min: 16 chips are in use"),
        (3, "waiting for a slice for 1 min: the pool grows"),
        (3, "waiting for a slice for 120 min: the pool grows"),
    ]
