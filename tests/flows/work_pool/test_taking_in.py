"""Which errors end a run at once, which put it back, and for how long it was put back already."""

from __future__ import annotations

import datetime
from pathlib import Path

import httpx
import pytest
from prefect.client.schemas.objects import State
from prefect.states import AwaitingRetry, Crashed, Pending, Scheduled

from prefect_tpu.flows.work_pool.submission import NotNow
from prefect_tpu.flows.work_pool.taking_in import NOT_YET, is_for_good, said, troubled_since
from prefect_tpu.infra.errors import PlatformError, RefusedForGood, UsageError
from prefect_tpu.infra.gcp.errors import Conflict, Forbidden, NotFound, Refused, Unauthorized, Unavailable
from prefect_tpu.infra.storage import LocalStorage

NOW = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize("kind", [UsageError, RefusedForGood, Conflict, Forbidden, NotFound, Refused])
def test_what_would_be_refused_again_ends_the_run(kind: type[Exception]) -> None:
    assert is_for_good(kind("no"))


@pytest.mark.parametrize(
    "kind", [PlatformError, Unavailable, Unauthorized, NotNow, TimeoutError, httpx.ConnectError, ValueError]
)
def test_whatever_else_puts_it_back(kind: type[Exception]) -> None:
    assert not is_for_good(kind("not now"))


def test_an_output_that_is_no_folder_ends_it_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError) as refused:
        LocalStorage(tmp_path / "file" / "jobs").put("a", b"")
    assert is_for_good(refused.value)


def at(minutes: int, state: State[None]) -> State[None]:
    return state.model_copy(update={"timestamp": NOW - datetime.timedelta(minutes=minutes)})


def test_a_run_was_put_back_as_often_in_a_row_as_its_states_say() -> None:
    put_back = AwaitingRetry(message=f"{NOT_YET} the bucket is away.")
    trouble = [at(9, put_back), at(8, Pending()), at(5, put_back), at(4, Pending())]
    earlier = [at(60, put_back), at(59, Pending()), at(50, Crashed(message="a host was lost")), at(40, Scheduled())]
    assert troubled_since([*trouble, *earlier], NOW) == NOW - datetime.timedelta(minutes=9)
    assert troubled_since(earlier, NOW) == NOW and troubled_since([], NOW) == NOW


def test_why_is_said_in_a_sentence() -> None:
    assert said(PlatformError("The bucket is away.")) == "The bucket is away."
    assert "does not answer" in said(TimeoutError())
    assert said(ValueError("x")) == "ValueError: x"
