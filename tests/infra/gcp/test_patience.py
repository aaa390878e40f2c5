"""When is a request sent again, and after how long?"""

from __future__ import annotations

import pytest

from prefect_tpu.infra.gcp.errors import Answer, Conflict, Unavailable
from prefect_tpu.infra.gcp.patience import Patience, is_worth_repeating, pause, persevere


def test_what_a_second_request_does_no_harm_to_is_repeated() -> None:
    assert is_worth_repeating(Unavailable("no answer"), is_harmless=True)
    assert not is_worth_repeating(Unavailable("no answer"), is_harmless=False)
    assert is_worth_repeating(Unavailable("turned away", is_unprocessed=True), is_harmless=False)
    assert not is_worth_repeating(Conflict("taken"), is_harmless=True)


def test_the_api_server_s_wish_is_the_least() -> None:
    asked = Unavailable("busy", Answer(code=429, retry_after=5.0))
    assert [pause(asked, drawn) for drawn in (0.1, 9.0)] == [5.0, 9.0]
    assert pause(Unavailable("no answer"), 0.1) == 0.1


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_pause_that_leads_beyond_the_bound_is_not_begun() -> None:
    tries: list[int] = []

    async def ask() -> None:
        tries.append(1)
        raise Unavailable("busy", Answer(code=429, retry_after=3600.0))

    with pytest.raises(Unavailable, match="busy") as caught:
        await persevere(ask, Patience(), seconds=60.0, is_worth=lambda error: isinstance(error, Unavailable))
    assert (len(tries), caught.value.__notes__) == (1, ["Tried once in 0 s."])
