"""What the launcher tells of an attempt's beginning, and of a wait how long it lasts, each minute."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.news import Announcer, News
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import WaitFor


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
        announcer.waits(3, reason, seconds, WaitFor.TURN if reason is full else WaitFor.SLICE)
    assert [news.waits_for for news in heard] == [WaitFor.TURN, WaitFor.TURN, WaitFor.SLICE, WaitFor.SLICE]
    assert [(news.attempt, news.text) for news in heard] == [
        (3, f"waiting: {full}"),
        (3, f"waiting for 1 min: {full}"),
        (3, f"waiting for 1 min: {grows}"),
        (3, f"waiting for 120 min: {grows}"),
    ]


def test_why_there_was_no_slice_is_told_once_where_it_is_new(make_plan: Callable[..., HostPlan]) -> None:
    said: list[str | None] = []
    announcer = Announcer("digits", lambda news: said.append(news.text))
    announcer.waits(1, "v6e-16: GCE: no: machines.", 0.0)
    heard, new = "v6e-16 gave no slice: GCE: no: machines", "v5e-8 cannot be had: too large"
    announcer.began(make_plan(accelerator="cpu", hosts=1, devices_per_host=1, attempt=1), "cpu", (heard, new))
    assert said[1] == f"v6e-16 gave no slice; {new}; beginning on cpu: 1 host of 1 device, from the beginning"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FailureKind.NO_CAPACITY, "no_capacity: None of v6e-16."),
        (FailureKind.HOST_LOST, "host_lost: None of v6e-16: x."),
    ],
)
def test_an_end_says_again_what_is_no_want_of_a_slice(kind: FailureKind, told: str) -> None:
    said: list[str | None] = []
    announcer = Announcer("digits", lambda news: said.append(news.text))
    announcer.waits(1, "v6e-16: x.", 0.0)
    ended = AttemptSummary(
        number=1, accelerator="v6e-16", started=0.0, ended=1.0, outcome="x", failure=failure(kind, "None of v6e-16: x.")
    )
    announcer.ended(ended)
    assert said[-1] == told
