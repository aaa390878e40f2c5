"""The ledger of chips: however many want them, no more than the budget are held at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.storage import LocalStorage, Storage
from prefect_tpu.infra.sweep.chips import Chips, Move, held, most_held


def test_what_is_taken_is_held_until_it_is_given_back(anywhere: Storage) -> None:
    chips = Chips(anywhere, driver="us")
    assert chips.take(0, 2, budget=3)
    assert not chips.take(1, 2, budget=3)
    assert chips.take(1, 1, budget=3)
    assert chips.take(0, 2, budget=3), "asked again it holds them already"
    assert Chips(anywhere, driver="them").held() == {0: 2, 1: 1}
    chips.give_back(0)
    chips.give_back(0)
    assert chips.held() == {1: 1}
    assert most_held(chips.moves()) == 3
    assert [(move.trial, move.is_taken) for move in chips.moves()] == [(0, True), (1, True), (0, False)]


def test_who_was_followed_by_another_driver_takes_and_gives_back_nothing(anywhere: Storage) -> None:
    earlier, later = Chips(anywhere, driver="earlier"), Chips(anywhere, driver="later")
    assert earlier.take(0, 1, budget=3)
    assert later.take(0, 1, budget=3), "it holds them, and keeps them"
    earlier.give_back(0)
    assert not earlier.take(1, 1, budget=3)
    assert earlier.held() == later.held() == {0: 1}
    later.give_back(0)
    assert later.held() == {}


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(1, 3))))
def test_the_most_that_was_held_is_the_most_of_all_moments(said: list[tuple[int, bool, int]]) -> None:
    moves: list[Move] = []
    for trial, wants, chips in said:
        now = held(moves)
        if wants != (trial in now):
            moves.append(Move(trial=trial, chips=now.get(trial, chips), is_taken=wants))
    moments = [sum(held(moves[:count]).values()) for count in range(len(moves) + 1)]
    assert most_held(moves) == max(moments)


def test_of_many_that_see_the_same_free_chips_no_more_take_them_than_there_are(tmp_path: Path) -> None:
    writers, budget = 8, 3
    together = Barrier(writers)

    def take(trial: int) -> bool:
        chips = Chips(LocalStorage(tmp_path), driver="us")
        together.wait()
        return chips.take(trial, 1, budget)

    with ThreadPoolExecutor(writers) as pool:
        taken = list(pool.map(take, range(writers)))
    assert sum(taken) == budget == sum(Chips(LocalStorage(tmp_path), driver="").held().values())
