"""When is a model trained again, and when does a candidate take the champion's place."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.policy.retraining import (
    DAY_SECONDS,
    JobIs,
    Mode,
    Seen,
    judge,
    why_to_abandon,
    why_to_train,
)

NOW = 1_000 * DAY_SECONDS
SEEN = Seen(
    now={"digits": "a"}, last={"digits": "a"}, last_at=NOW - DAY_SECONDS, champion_at=NOW - DAY_SECONDS, max_age=None,
    is_forced=False, at=NOW,
)  # fmt: skip
numbers = st.floats(allow_nan=True, allow_infinity=True)


def test_nothing_is_trained_where_nothing_changed() -> None:
    assert why_to_train(SEEN) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"last": None}, "it was never trained"),
        ({"now": {"digits": "b"}}, "its data changed: digits"),
        ({"now": {}}, "its data changed: digits"),
        ({"now": {"digits": "a", "gs://more": "c"}}, "its data changed: gs://more"),
        ({"is_forced": True}, "it was asked for"),
        ({"max_age": DAY_SECONDS / 2}, "it was trained 1.0 days ago"),
    ],
)
def test_what_calls_for_another_candidate(change: dict[str, object], reason: str) -> None:
    assert why_to_train(replace(SEEN, **change)) == reason  # type: ignore[arg-type]


def test_a_model_ages_from_its_newest_candidate_on() -> None:
    old = replace(SEEN, max_age=2 * DAY_SECONDS, champion_at=NOW - 9 * DAY_SECONDS)
    assert why_to_train(old) is None
    assert why_to_train(replace(old, last_at=NOW - 3 * DAY_SECONDS)) == "it was trained 3.0 days ago"


@pytest.mark.parametrize(("job", "is_changed"), list(product(JobIs, (False, True))))
def test_only_what_no_slice_works_for_gives_way_to_newer_data(job: JobIs, is_changed: bool) -> None:
    why = why_to_abandon(job, {"digits": "a"}, {"digits": "b" if is_changed else "a"})
    assert (why is not None) == (is_changed and job in (JobIs.ABSENT, JobIs.FAILED))
    assert why is None or "digits" in why


@given(score=numbers, rival=st.none() | numbers, mode=st.sampled_from(Mode), least=st.floats(0, 1e6))
def test_a_champion_gives_way_only_to_what_is_better(
    score: float, rival: float | None, mode: Mode, least: float
) -> None:
    found = judge("loss", mode, score, rival, least)
    if not math.isfinite(score):
        assert not found.is_promoted
    elif rival is None or not math.isfinite(rival):
        assert found.is_promoted
    else:
        better = rival - score if mode is Mode.MIN else score - rival
        assert found.is_promoted == (better > 0 and better >= least)
    assert "loss" in found.reason


def test_why_a_candidate_that_is_a_little_better_is_not_promoted() -> None:
    found = judge("loss", Mode.MIN, 0.5, 0.6, 0.2)
    assert not found.is_promoted
    assert found.reason == "its loss is 0.5, the champion's 0.6, and 0.2 better were asked for"


def test_a_champion_whose_weights_are_gone_is_not_said_to_be_none() -> None:
    lost = judge("loss", Mode.MIN, 0.5, None, is_champion_lost=True)
    assert lost.is_promoted and lost.reason == "the champion's weights are gone; its loss is 0.5"
    assert judge("loss", Mode.MIN, 0.5, None).reason == "there was no champion; its loss is 0.5"
    assert "weights" not in judge("loss", Mode.MIN, 0.5, 0.6, is_champion_lost=True).reason
