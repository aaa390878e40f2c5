"""Which trials begin, go on, stop or give back their chips: by a table, and by every small case there is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.policy.sweeping import Begun, Turn, Wanted, by_priority, decide

ONE = Wanted(chips=1)
RUNS = Begun(number=0, chips=1, holds=True, is_driven=True)


def test_trials_begin_as_long_as_there_are_chips() -> None:
    assert decide(3, [], [ONE] * 5).begin == 3
    assert decide(3, [RUNS], [ONE] * 5).begin == 2
    assert decide(3, [RUNS], [Wanted(chips=4)]).begin == 0


def test_nobody_overtakes_a_trial_that_waits_for_chips() -> None:
    assert decide(3, [RUNS], [Wanted(chips=3), ONE]) == Turn()
    waiting = Begun(number=1, chips=3)
    assert decide(3, [RUNS, waiting, Begun(number=2, chips=1)], [ONE]) == Turn()


def test_the_higher_priority_begins_first_and_of_equals_the_first_named() -> None:
    wanted = [Wanted(chips=1), Wanted(chips=2, priority=1.0), Wanted(chips=3), Wanted(chips=4, priority=1.0)]
    assert [item.chips for item in by_priority(wanted)] == [2, 4, 1, 3]
    assert decide(2, [], wanted).begin == 1  # the one of two chips
    assert decide(1, [], wanted).begin == 0  # though another one would fit


def test_a_trial_whose_hosts_outlived_its_driver_goes_on_and_its_chips_are_not_free() -> None:
    left = Begun(number=0, chips=2, holds=True)
    assert decide(2, [left], [ONE]) == Turn(go_on=(0,))
    assert decide(3, [left], [ONE]) == Turn(go_on=(0,), begin=1)


def test_where_more_is_held_than_there_may_be_no_more_goes_on_than_that() -> None:
    """The budget is smaller than when they took their chips."""
    left = [Begun(number=number, chips=1, holds=True) for number in range(3)]
    assert decide(2, left, [ONE]) == Turn(go_on=(0, 1))
    assert decide(2, [RUNS, *left[1:]], [ONE]) == Turn(go_on=(1,))
    over = Begun(number=0, chips=1, holds=True, is_told=True)
    assert decide(2, [over, *left[1:]], [ONE]) == Turn(give_back=(0,), go_on=(1, 2))
    assert decide(1, [RUNS], [Wanted(chips=1, holds=True)]) == Turn()


def test_a_trial_that_stopped_with_the_sweep_takes_chips_again_before_new_ones_begin() -> None:
    stopped = Begun(number=0, chips=1)
    assert decide(2, [stopped], [ONE, ONE]) == Turn(go_on=(0,), begin=1)


def test_chips_that_were_taken_for_a_trial_that_never_began_are_its_own() -> None:
    assert decide(2, [], [Wanted(chips=2, holds=True), ONE]) == Turn(begin=1)
    assert decide(3, [], [Wanted(chips=2, holds=True), ONE]) == Turn(begin=2)


def test_a_trial_that_has_its_end_gives_back_what_it_still_holds() -> None:
    over = Begun(number=0, chips=1, holds=True, is_told=True)
    assert decide(1, [over], [ONE]) == Turn(give_back=(0,), begin=1)
    assert decide(1, [over], []) == Turn(give_back=(0,)), "whoever thinks it is over would leave them taken"
    assert decide(1, [over], [], is_leaving=True) == Turn(give_back=(0,))
    assert decide(1, [Begun(number=0, chips=1, is_told=True)], []) == Turn(is_over=True)


@pytest.mark.parametrize(
    ("trial", "stops"),
    [
        (Begun(number=0, chips=1, holds=True, is_driven=True), False),
        (Begun(number=0, chips=1, holds=True, is_driven=True, is_given_up=True), True),
        (Begun(number=0, chips=1, holds=True, is_driven=True, is_given_up=True, is_told=True), False),
        (Begun(number=0, chips=1, holds=True, is_given_up=True), False),
    ],
)
def test_what_was_given_up_stops_once_somebody_drives_it(trial: Begun, stops: bool) -> None:
    assert decide(1, [trial], []).stop == ((0,) if stops else ())


def test_who_leaves_begins_nothing_and_waits_for_what_it_drives() -> None:
    idle = Begun(number=1, chips=1, holds=True)
    assert decide(9, [RUNS, idle], [ONE], is_leaving=True) == Turn(stop=(0,))
    assert decide(9, [idle], [ONE], is_leaving=True) == Turn(is_over=True)


def every_trial(number: int) -> Iterator[Begun]:
    for chips, *flags in itertools.product((1, 2), *[(False, True)] * 4):
        holds, driven, told, given_up = flags
        if driven and not holds:
            continue  # a job is driven only with its chips
        yield Begun(number=number, chips=chips, holds=holds, is_driven=driven, is_told=told, is_given_up=given_up)


WANTED = [Wanted(chips=1), Wanted(chips=2), Wanted(chips=1, priority=1.0), Wanted(chips=2, priority=2.0)]


def test_every_small_case_keeps_the_budget_and_starves_nobody() -> None:
    cases = itertools.product(range(4), every_trial(0), every_trial(1), (0, 1, 2), (False, True))
    count = 0
    for budget, first, second, more, is_leaving in cases:
        for wanted in itertools.permutations(WANTED, more):
            check(budget, [first, second], list(wanted), is_leaving)
            count += 1
    assert count > 10_000


@given(
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(1, 5), *[st.booleans()] * 4), max_size=8),
    st.lists(st.tuples(st.integers(1, 5), st.integers(-2, 2)), max_size=8),
    st.booleans(),
)
def test_any_case_keeps_the_budget(
    budget: int,
    trials: list[tuple[int, bool, bool, bool, bool]],
    more: list[tuple[int, int]],
    is_leaving: bool,
) -> None:
    begun = [
        Begun(number=number, chips=chips, holds=holds or driven, is_driven=driven, is_told=told, is_given_up=given_up)
        for number, (chips, holds, driven, told, given_up) in enumerate(trials)
    ]
    check(budget, begun, [Wanted(chips=chips, priority=priority) for chips, priority in more], is_leaving)


def check(budget: int, begun: list[Begun], wanted: list[Wanted], is_leaving: bool) -> None:
    turn = decide(budget, begun, wanted, is_leaving=is_leaving)
    by_number = {trial.number: trial for trial in begun}
    kept = sum(trial.chips for trial in begun if trial.holds and trial.number not in turn.give_back)
    new = sum(by_number[number].chips for number in turn.go_on if not by_number[number].holds)
    new += sum(trial.chips for trial in by_priority(wanted)[: turn.begin])
    assert new == 0 or kept + new <= budget
    driven = [trial.chips for trial in begun if trial.is_driven or trial.number in turn.go_on]
    if turn.go_on:
        assert sum(driven) <= budget
    for number in turn.go_on:
        assert not by_number[number].is_told and not by_number[number].is_driven
    for number in turn.give_back:
        assert by_number[number].is_told and by_number[number].holds and not by_number[number].is_driven
    for number in turn.stop:
        assert by_number[number].is_driven
    if is_leaving:
        assert not turn.go_on and not turn.begin
        return
    is_all_told = all(trial.is_told and not trial.is_driven for trial in begun)
    assert turn.is_over == (not wanted and is_all_told and not turn.give_back)
    assert_nothing_waits_in_vain(budget - kept - new, budget - sum(driven), begun, wanted, turn)


def assert_nothing_waits_in_vain(free: int, room: int, begun: list[Begun], wanted: list[Wanted], turn: Turn) -> None:
    """Whoever is next and does not begin has too few chips; whoever has chips goes on where the budget lets it."""
    waiting = [t for t in begun if not t.is_told and not t.is_driven and t.number not in turn.go_on]
    assert not [trial for trial in waiting if trial.holds and trial.chips <= room]
    rest = by_priority(wanted)[turn.begin :]
    following = [trial.chips for trial in waiting] or [trial.chips for trial in rest]
    assert not following or following[0] > free
