"""A storage that is away for a while is looked at again; what it refuses for good, and what lasts long, is raised."""

from __future__ import annotations

import logging

import anyio
import pytest

from prefect_tpu.infra.backends.outages import outlast
from prefect_tpu.infra.errors import PlatformError, RefusedForGood

AWAY = PlatformError("The bucket cannot be reached.")
FORBIDDEN = RefusedForGood("The bucket is forbidden.")


class Storage:
    """Answers in turn."""

    def __init__(self, *answers: str | Exception) -> None:
        self.left = list(answers)

    async def look(self) -> str:
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def outlasted(storage: Storage, seconds: float) -> str:
    return anyio.run(outlast, storage.look, seconds, 0.0)


def test_a_storage_that_is_away_for_a_while_is_waited_for_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert outlasted(Storage(AWAY, AWAY, "all is well"), 600.0) == "all is well"
    (told,) = caplog.messages
    assert told == "The bucket cannot be reached. The hosts run on; it is tried again for 600 s."


def test_what_is_refused_for_good_is_not_looked_at_again() -> None:
    storage = Storage(FORBIDDEN, "never asked for")
    with pytest.raises(RefusedForGood, match="forbidden"):
        outlasted(storage, 600.0)
    assert storage.left == ["never asked for"]


def test_a_storage_that_is_away_for_too_long_is_an_error() -> None:
    storage = Storage(AWAY, "never asked for")
    with pytest.raises(PlatformError, match="cannot be reached"):
        outlasted(storage, -1.0)
    assert storage.left == ["never asked for"]
