"""Of hosts that all stand still, the one that the others wait for."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.contract import ExitCode, HostRecord, Progress, Silence
from prefect_tpu.infra.policy.stalls import message, stopped_first


def record(host: int, step: int | None, reported: float = 15.0, **silence: Any) -> HostRecord:
    """All hosts met 10 s after their runner's start, which was not the same moment."""
    return HostRecord(
        attempt=2,
        host=host,
        exit_code=ExitCode.STALLED,
        joined_after=10.0 + host,
        progress=Progress(step=step, reported_after=None if step is None else reported + host),
        silence=Silence(**{"silent_for": 60.0 + host, "where": "train.py:8 in main", **silence}),
    )


WAITS = {"is_waiting": True}


@pytest.mark.parametrize(
    ("records", "host"),
    [
        ([record(0, 41), record(1, 40), record(2, 41)], 1),
        ([record(0, 5, **WAITS), record(1, 6), record(2, 6, **WAITS)], 1),
        ([record(0, 5, **WAITS), record(1, 4, **WAITS)], 1),
        ([record(0, 5), record(1, 5), record(2, 5, where="data.py:3 in read")], 2),
        ([record(0, 5), record(1, 5, reported=14.0), record(2, 5)], 1),
        ([record(0, 5), record(1, None)], 0),
        ([record(0, None), record(1, None)], None),
    ],
)
def test_who_stopped_first(records: list[HostRecord], host: int | None) -> None:
    assert stopped_first(records) == host


def test_hosts_without_an_account_of_their_silence_go_by_their_steps() -> None:
    bare = [HostRecord(attempt=1, host=h, exit_code=86, progress=Progress(step=3 - h)) for h in (0, 1)]
    assert stopped_first(bare) == 1
    assert message(bare).startswith("No host made a step for too long; host 1 stopped first, after step 2; asked")


def test_where_no_stacks_were_given_none_are_promised() -> None:
    assert message([record(0, 5, where=""), record(1, 4, where="")]) == (
        "No host made a step for 60 s; host 1 stopped first, after step 4; asked for stacks, no program answered."
    )


def test_the_message_has_the_shortest_silence_and_the_place() -> None:
    assert message([record(0, 5, silent_for=70.0), record(1, 4, where="")]) == (
        "No host made a step for 61 s; host 1 stopped first, after step 4;"
        " the stacks of all hosts are in attempts/2/hosts/*/stacks.txt."
    )
    assert message([record(0, None), record(1, None)]) == (
        "No host made a step for 60 s; none was ever reported; host 0 stood still, in train.py:8 in main;"
        " the stacks of all hosts are in attempts/2/hosts/*/stacks.txt."
    )
