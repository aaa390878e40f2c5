"""What the launcher tells of an attempt's beginning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prefect_tpu.infra.launcher.news import Announcer, News
from prefect_tpu.infra.plan import HostPlan


@pytest.mark.parametrize("stand_in", ["", "CPU devices stand in for l4."])
def test_what_stands_in_is_told(make_plan: Callable[..., HostPlan], stand_in: str) -> None:
    told: list[News] = []
    plan = make_plan(accelerator="l4", hosts=1, devices_per_host=1, stand_in=stand_in)
    Announcer("job", told.append).began(plan)
    said = ["l4: 1 host of 1 device, from the beginning", stand_in]
    assert [news.text for news in told] == [text for text in said if text]
    assert {news.attempt for news in told} == {plan.attempt}
