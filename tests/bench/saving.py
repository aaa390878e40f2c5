"""What does saving cost the steps, and what do `report` and `save` cost where nothing is due?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from calls import STEP_SECONDS
from ratios import Contender, Experiment
from sides import Sides

BALLAST = 64  # MiB of state beside the weights
SAVES = 5
NEVER, SOON = 3600.0, 2.0  # seconds between two saves
FEW_STEPS = 60  # long enough for a save or two
OWN_STEPS = 100  # in a block of which the mean is taken


def saving(sides: Sides, window_seconds: float) -> Experiment:
    """In the window falls one save: `every` is more than half of it."""
    steps = round(window_seconds / sides.step_seconds())
    train = partial(sides.training, steps, ballast=BALLAST)
    return Experiment(
        against="without saving",
        other=lambda: train(every=NEVER)["step_seconds"],
        contenders=(
            Contender(
                what="step time with one save a minute",
                how=f"The mean of {steps} steps, about {window_seconds:.0f} s, in which one save of {BALLAST} MiB"
                " begins and ends beside the steps.",
                seconds=lambda: train(every=0.6 * window_seconds)["step_seconds"],
            ),
        ),
        warm_up=False,
    )


def one_save(sides: Sides) -> Experiment:
    return Experiment(
        against="the longest that a step waits for one",
        other=lambda: sides.training(FEW_STEPS, ballast=BALLAST, every=SOON)["longest_save_call"],
        contenders=(
            Contender(
                what="seconds per save",
                how=f"One save of {BALLAST} MiB after the other, each whole on disk and sealed before the next; the"
                " program itself goes on as soon as the state is copied.",
                seconds=lambda: sides.job("calls.py:saves", count=SAVES, width=512, ballast=BALLAST),
            ),
        ),
        warm_up=False,
    )


def own_time(sides: Sides, blocks: int) -> Experiment:
    return _own(
        sides,
        blocks,
        "own_time",
        what="own time of `report` and `checkpoints.save`",
        how=f"On two hosts of a job where nothing is due: a step and both calls, at the mean of {OWN_STEPS}.",
    )


def guards(sides: Sides, blocks: int) -> Experiment:
    return _own(
        sides,
        blocks,
        "guards",
        what="own time of `agree`",
        how=f"On two hosts of a job that agree on three values: a step and the call, at the mean of {OWN_STEPS}.",
    )


def barrier(sides: Sides, blocks: int) -> Experiment:
    return _own(
        sides,
        blocks,
        "barriers",
        what="a `barrier` in each step",
        how=f"On two hosts of a job that come to it together: a step and the call, at the mean of {OWN_STEPS}. It waits"
        " for the other host, so it has no goal.",
        goal=None,
    )


def _own(sides: Sides, blocks: int, program: str, *, what: str, how: str, goal: float | None = 1.01) -> Experiment:
    """All blocks are of one job: the first call carries it out."""
    found: Iterator[float] = iter(())

    def ours() -> float:
        nonlocal found
        taken = next(found, None)
        if taken is None:
            found = iter(sides.job(f"calls.py:{program}", blocks=blocks, steps=OWN_STEPS))
            taken = next(found)
        return STEP_SECONDS + taken

    return Experiment(
        against=f"a step of {STEP_SECONDS * 1000:.0f} ms",
        other=lambda: STEP_SECONDS,
        contenders=(Contender(what=what, how=how, seconds=ours, goal=goal),),
        warm_up=False,
    )
