"""A server that is too busy counts as one that is away; other answers stay what they are."""

from __future__ import annotations

import httpx
import pytest

from prefect_tpu.flows.work_pool.busy_server import busy_is_away, is_away


def answered(status: int) -> None:
    httpx.Response(status, request=httpx.Request("GET", "http://server/api/work_pools")).raise_for_status()


def test_a_busy_server_is_told_as_one_that_does_not_answer() -> None:
    with pytest.raises(httpx.TransportError, match="too many requests"), busy_is_away():
        answered(429)


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_other_answers_are_told_as_they_are(status: int) -> None:
    with pytest.raises(httpx.HTTPStatusError) as told, busy_is_away():
        answered(status)
    assert told.value.response.status_code == status


@pytest.mark.parametrize(
    ("status", "is_asked_again"), [(404, False), (401, False), (408, True), (429, True), (503, True)]
)
def test_what_is_no_answer_is_asked_again(status: int, is_asked_again: bool) -> None:
    with pytest.raises(httpx.HTTPStatusError) as told:
        answered(status)
    assert is_away(told.value) is is_asked_again
    assert is_away(httpx.ConnectError("refused")) and not is_away(ValueError("of ours"))
