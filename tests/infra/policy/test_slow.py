"""Which host keeps the others waiting, by what each says of its steps."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.policy.slow import slow_host


def reported(*own: float | None, step: float = 0.1) -> dict[int, Progress]:
    return {host: Progress(step=40, step_seconds=step, own_seconds=each) for host, each in enumerate(own)}


@pytest.mark.parametrize(
    ("hosts", "slow"),
    [
        (reported(), None),
        (reported(0.09), None),  # alone
        (reported(None, None), None),  # nothing is known yet
        (reported(0.09, None), None),
        (reported(0.001, 0.09), 1),
        (reported(0.001, 0.002, 0.09, 0.001), 2),
        (reported(0.09, 0.08, 0.001, 0.001, 0.001), 0),  # the slowest of several
        (reported(0.001, 0.015), None),  # too little to tell
        (reported(1.0, 1.1, step=1.1), None),  # a tenth longer
        (reported(1.0, 1.6, step=1.6), 1),
        (reported(0.01, 0.05, step=2.0), None),  # nobody waits for it
    ],
)
def test_a_host_is_slow_where_its_own_part_makes_the_step_longer(hosts: dict[int, Progress], slow: int | None) -> None:
    found = slow_host(hosts)
    assert (None if found is None else found.host) == slow


def test_it_is_said_in_a_sentence() -> None:
    assert str(slow_host(reported(0.001, 0.09))) == (
        "host 1 is slow: its own part of a step takes 0.090 s, that of the others 0.001 s, and all wait for it"
    )
