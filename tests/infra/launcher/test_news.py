"""What the launcher tells of an attempt's beginning, and of a wait how long it lasts, each minute."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prefect_tpu.infra.launcher.news import Announcer, News
from prefect_tpu.infra.plan import HostPlan


@pytest.mark.parametrize("stand_in", ["", "CPU devices stand in for l4."])
def test_what_stands_in_is_told(make_plan: Callable[..., HostPlan], stand_in: str) -> None:
    told: list[News] = []
    plan = make_plan(accelerator="l4", hosts=1, devices_per_host=1, stand_in=stand_in)
    Announcer("job", told.append).began(plan, "l4")
    said = ["l4: 1 host of 1 device, from the beginning", stand_in]
    assert [news.text for news in told] == [text for text in said if text]
    assert {news.attempt for news in told} == {plan.attempt}


def test_a_wait_is_explained_on_each_change_and_each_minute() -> None:
    heard: list[News] = []
    announcer = Announcer("digits", heard.append)
    full, grows = "16 chips are in use", "the pool grows"
    for seconds, reason in [(0.0, full), (59.0, full), (61.0, full), (100.0, grows), (119.9, grows), (7200.0, grows)]:
        announcer.waits(3, reason, seconds)
    assert [(news.attempt, news.text) for news in heard] == [
        (3, f"waiting: {full}"),
        (3, f"waiting for 1 min: {full}"),
        (3, f"waiting for 1 min: {grows}"),
        (3, f"waiting for 120 min: {grows}"),
    ]
