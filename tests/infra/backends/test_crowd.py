"""One job is looked at as often as its backend allows; many together ask no more than a few a second."""

from __future__ import annotations

from contextlib import ExitStack

from prefect_tpu.infra.backends.crowd import IDLE_LOOKS_A_SECOND, Crowd, idle, restless


def test_who_is_alone_waits_for_nobody() -> None:
    assert (idle(2.0), restless(1.0)) == (2.0, 1.0)
    with Crowd().used():
        assert (idle(2.0), restless(1.0)) == (2.0, 1.0)


def test_many_look_the_less_often_the_more_they_are() -> None:
    crowd = Crowd()
    with ExitStack() as all_of_them:
        for _ in range(500):
            all_of_them.enter_context(crowd.used())
        assert 500 / idle(2.0) <= IDLE_LOOKS_A_SECOND
        assert restless(1.0) == 10.0
        assert crowd.size == 500
    assert crowd.size == 0 and idle(2.0) == 2.0
