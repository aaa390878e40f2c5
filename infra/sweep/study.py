"""What does Optuna know of a sweep's trials, and what does it say? One object for each thing it is asked or told.

All calls from one thread. Optuna's samplers and pruners keep nothing that is not in the study: a sampler is made anew
for each trial, with a seed of the trial's own, so that a sweep that is killed and run again chooses what it would have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.loading import load
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.asked import Asked
from prefect_tpu.infra.sweep.space import Choice, Params, Span

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

Point = tuple[int, float]  # steps done, the value of the metric then
NOT_INSTALLED = "A sweep needs Optuna, which is not installed: `pip install 'prefect-tpu[sweep]'`."


class TrialState(StrEnum):
    """Where a trial stands."""

    OPEN = "open"  # it was begun and has no end
    COMPLETE = "complete"  # it has its value
    PRUNED = "pruned"  # it was given up before its end
    FAILED = "failed"  # its job failed, or it has no value


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial as the study has it.

    number: counted from 0, in the order in which they begin.
    params: the values of the space that it tries.
    value: of the metric: at its end where it is complete, as last reported where it was pruned.
    last_step: how many steps it had done when it was last compared with others; 0 where it never was.
    """

    number: int
    params: Params
    state: TrialState
    value: float | None
    last_step: int


def check_installed() -> None:
    """Raise `UsageError` where Optuna is missing, with what to install."""
    try:
        load("optuna")
    except ModuleNotFoundError as exc:
        if exc.name != "optuna":
            raise
        raise UsageError(NOT_INSTALLED) from None


class Study:
    """The study of one sweep, opened or begun."""

    def __init__(self, storage: Storage, asked: Asked) -> None:
        check_installed()
        import optuna

        from prefect_tpu.infra.sweep.journal import Journal

        self._asked, self._journal = asked, Journal(storage)
        self._storage = optuna.storages.JournalStorage(self._journal)
        with _quietly():
            self._study: OptunaStudy = optuna.create_study(
                study_name=asked.name,
                storage=self._storage,
                direction="minimize" if asked.mode == "min" else "maximize",
                pruner=_pruner(asked.pruner),
                load_if_exists=True,
            )
        self._id = self._storage.get_study_id_from_name(asked.name)
        self._distributions = {name: _distribution(said) for name, said in asked.parsed.items()}

    def trials(self) -> list[Trial]:
        """All that were begun, by their numbers."""
        return [_as_trial(found) for found in self._study.get_trials(deepcopy=False)]

    def ask(self) -> Trial:
        """Begin another trial: with the next point that was named, or with what the sampler chooses."""
        number = len(self._study.get_trials(deepcopy=False))
        self._study.sampler = _sampler(self._asked.sampler, _seed(self._asked.seed, number))
        with self._journal.together():
            if number < len(self._asked.points):
                self._study.enqueue_trial(self._asked.points[number].params)
            asked = self._study.ask(self._distributions)
        assert asked.number == number, "nobody else begins trials of this study"
        return self.trials()[number]

    def report(self, number: int, points: Sequence[Point]) -> Point | None:
        """Tell values of the metric after so many steps, one after the other.

        The first at which the trial is worse than it may be; None where it is not. What comes after is told all the
        same: others are compared with it.
        """
        if not points:
            return None
        trial_id, given_up = self._trial_id(number), None
        with self._journal.together():
            for step, value in points:
                self._storage.set_trial_intermediate_value(trial_id, step, value)
                if self._study.pruner.prune(self._study, self._storage.get_trial(trial_id)) and given_up is None:
                    given_up = step, value
        return given_up

    def tell(self, number: int, state: TrialState, value: float | None = None) -> None:
        """Tell how a trial ended; what was told first stays. value: of a complete one."""
        from optuna.trial import TrialState as Told

        told = {TrialState.COMPLETE: Told.COMPLETE, TrialState.PRUNED: Told.PRUNED, TrialState.FAILED: Told.FAIL}
        with self._journal.together():
            self._study.tell(number, value, told[state], skip_if_finished=True)

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)


def best(trials: list[Trial], mode: str) -> Trial | None:
    """The complete trial with the best value, the first of equals; None where none is complete."""
    complete = [(trial.value, trial) for trial in trials if trial.state is TrialState.COMPLETE]
    found = [(value if mode == "min" else -value, trial) for value, trial in complete if value is not None]
    return min(found, key=lambda pair: pair[0], default=(0.0, None))[1]


def _as_trial(found: FrozenTrial) -> Trial:
    states = {"COMPLETE": TrialState.COMPLETE, "PRUNED": TrialState.PRUNED, "FAIL": TrialState.FAILED}
    return Trial(
        number=found.number,
        params=dict(found.params),
        state=states.get(found.state.name, TrialState.OPEN),
        value=found.values[0] if found.values else None,
        last_step=found.last_step or 0,
    )


def _distribution(said: Span | Choice) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(said, Choice):
        return CategoricalDistribution(said.values)
    if said.is_whole:
        return IntDistribution(int(said.low), int(said.high), log=said.log, step=int(said.step or 1))
    return FloatDistribution(float(said.low), float(said.high), log=said.log, step=said.step)


def _sampler(name: str, seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler, TPESampler

    return TPESampler(seed=seed) if name == "tpe" else RandomSampler(seed=seed)


def _pruner(name: str) -> BasePruner:
    from optuna import pruners

    made: dict[str, Any] = {
        "median": pruners.MedianPruner,
        "halving": pruners.SuccessiveHalvingPruner,
        "hyperband": pruners.HyperbandPruner,
        "none": pruners.NopPruner,
    }
    pruner: BasePruner = made[name]()
    return pruner


def _seed(seed: int, number: int) -> int:
    """Of one trial: samplers take 32 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed}-{number}".encode()).digest()[:4], "big")


@contextmanager
def _quietly() -> Iterator[None]:
    """That a study was made is news of ours, in other words."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(before)
