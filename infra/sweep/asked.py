"""What is asked of a sweep? Checked before anything is written, and kept in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import Conflict, UsageError
from prefect_tpu.infra.job_checks import cut, nearest, shown
from prefect_tpu.infra.launcher.history import said_where
from prefect_tpu.infra.policy.sweeping import by_priority
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.space import Params, Space, check_point, grid, is_number, parse

MODES = ("min", "max")
PRUNERS = ("median", "halving", "hyperband", "none")
SAMPLERS = ("tpe", "random", "grid")
POINT_KEYS = ("params", "priority", "accelerator")
MOST_TRIALS = 10_000  # a job's name has room for four digits
# How trials are carried out, not which: a sweep that is run again may have other ones. Jobs that are not over say no.
MAY_DIFFER = frozenset({"chips", "checkpoint_every", "max_preemptions", "max_failures", "timing", "pods"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Parameters that are tried before any are sampled; of those it leaves out, the sampler gives the values.

    priority: the higher begins first.
    accelerator: of its own; None for that of the sweep.
    """

    params: Params = field(default_factory=dict)
    priority: float = 0.0
    accelerator: str | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One sweep.

    name: of it; its trials are the jobs `<name>-0`, `<name>-1`, ….
    space: name of a parameter → its values, as `space.parse` reads them.
    metric: of the program's value, or as it reports it.
    mode: `min` or `max`.
    trials: how many there are.
    accelerators: of each trial, the one that is liked best first.
    slices: of an accelerator, to each trial.
    chips: the most that all trials hold together; 0 for as many as the largest trial takes.
    first: points that are tried before others.
    pruner, sampler, seed: who gives trials up, and who chooses their parameters.
    params: fixed ones of every trial.
    shared: further parameters of the flow `train`, the same for every trial.
    """

    name: str
    program: str
    space: Mapping[str, Any]
    metric: str = "loss"
    mode: str = "min"
    trials: int = 10
    accelerators: tuple[str, ...] = ("cpu",)
    slices: int = 1
    chips: int = 0
    first: tuple[Mapping[str, Any], ...] = ()
    pruner: str = "median"
    sampler: str = "tpe"
    seed: int = 0
    params: Params = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `UsageError` for whatever the person can mend."""
        check_sweep_name(self.name)
        _check_whole("trials", self.trials, least=1, most=MOST_TRIALS)
        _check_whole("chips", self.chips, least=0)
        _check_whole("slices", self.slices, least=1)
        _check_whole("seed", self.seed, least=0)
        for name, known in (("mode", MODES), ("pruner", PRUNERS), ("sampler", SAMPLERS)):
            _check_word(name, getattr(self, name), known)
        if not self.metric or not isinstance(self.metric, str):
            raise UsageError(f"metric is {shown(self.metric)}: name what the program reports or returns, as 'loss'.")
        if not isinstance(self.params, Mapping):
            raise UsageError(f"params is {shown(self.params)}: give parameters by name, such as {{'steps': 100}}.")
        if wrong := [name for name in self.accelerators if not isinstance(name, str)]:
            raise UsageError(f"Accelerator {wrong[0]!r} is no text: give a name such as 'v6e-16' or 'cpu'.")
        if both := sorted(set(self.params) & set(self.parsed)):
            raise UsageError(f"params and space both have {both[0]!r}: leave it out of one of them.")
        self._check_chips()
        if self.sampler == "grid":
            grid(self.parsed)

    @cached_property
    def parsed(self) -> Space:
        """The space itself."""
        return parse(self.space)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """What is tried before anything is sampled, in the order of the trials' numbers; of a grid, all of it."""
        said = by_priority([_point(index, item, self.parsed) for index, item in enumerate(self.first)])
        if self.sampler != "grid":
            return tuple(said)
        named = [point.params for point in said]
        others = (params for params in grid(self.parsed) if params not in named)
        return (*said, *(Point(params=params, priority=-math.inf) for params in others))

    @property
    def count(self) -> int:
        """How many trials there will be: of a grid no more than it has points."""
        return min(self.trials, len(self.points)) if self.sampler == "grid" else self.trials

    @cached_property
    def budget(self) -> int:
        """The most chips that all trials may hold together."""
        return self.chips or self._largest

    @cached_property
    def _largest(self) -> int:
        return max(map(self.chips_of, self._kinds))

    @property
    def _kinds(self) -> range:
        """Trials that may take other chips than those after them: all that are named, and one that is not."""
        return range(min(len(self.first) + 1, self.count))

    def accelerators_of(self, trial: int) -> tuple[str, ...]:
        """Of one trial: its own alone, or those of the sweep."""
        own = self.points[trial].accelerator if trial < len(self.points) else None
        return self.accelerators if own is None else (own,)

    def chips_of(self, trial: int) -> int:
        """How many it may hold: of several accelerators as many as the largest has."""
        return max(resolve(name).chips for name in self.accelerators_of(trial)) * self.slices

    def priority_of(self, trial: int) -> float:
        """Of one trial: its own. Trials that are sampled come after all that are named."""
        return self.points[trial].priority if trial < len(self.points) else -math.inf

    def job_of(self, trial: int) -> str:
        """The name of its job."""
        return layout.trial_job(self.name, trial)

    def call_of(self, trial: int, params: Params, output: str) -> dict[str, Any]:
        """Parameters of the flow `train` for one trial."""
        first, *others = self.accelerators_of(trial)
        return {
            **self.shared,
            "program": self.program,
            "accelerator": first,
            "fallback_accelerators": others,
            "slices": self.slices,
            "params": {**self.params, **params},
            "name": self.job_of(trial),
            "output": output,
        }

    def _check_chips(self) -> None:
        """Of every accelerator that is named; `points` checks what is tried first."""
        for number in self._kinds:
            takes, named = self.chips_of(number), " or ".join(self.accelerators_of(number))
            if 0 < self.chips < takes:
                raise UsageError(
                    f"A trial on {named} takes {takes} chips, and chips is {self.chips}: give the sweep at least as"
                    " many, or a smaller accelerator."
                )

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def check_free(jobs: Storage, name: str) -> None:
    """Raise `Conflict` where a model of this name lies beside the jobs: its trainings would be called like trials."""
    if jobs.children(layout.model(name)):
        raise Conflict(
            f"A model that is trained again and again is called {name!r} in {jobs.url}: its trainings and the trials of"
            " such a sweep would have the same names. Use another name for the sweep."
        )


def enter(storage: Storage, asked: Asked) -> None:
    """Write down what is asked, or find it equal.

    Raises `Conflict`, naming what differs, where a sweep of this name was asked for differently. What `MAY_DIFFER` is
    as it is asked now.
    """
    raw = contract.write_json(asked.to_json())
    if storage.put_if_absent(layout.SWEEP, raw):
        return
    with said_where(storage, layout.SWEEP):
        stored = contract.read_json(storage.get(layout.SWEEP) or b"", layout.SWEEP)
    was, now = _flat(stored), _flat(json.loads(raw))
    differing = sorted(name for name in {**was, **now} if was.get(name) != now.get(name) and name not in MAY_DIFFER)
    if differing:
        said = "; ".join(_difference(name, was.get(name), now.get(name)) for name in differing)
        raise Conflict(
            f"Sweep {asked.name!r} exists and was asked for differently: {said}. Use the same values to go on with it,"
            " or another name for a new sweep."
        )


def _flat(stored: dict[str, Any]) -> dict[str, Any]:
    shared = stored.get("shared") or {}
    return {**{name: value for name, value in stored.items() if name not in ("shared", "version")}, **shared}


def _difference(name: str, was: Any, now: Any) -> str:
    """Without values of env, which may tell too much."""
    if name == "env":
        return "env changed"
    return f"{name} was {cut(json.dumps(was))} and is {cut(json.dumps(now))}"


def check_sweep_name(name: Any) -> str:
    """The name itself. Raises `UsageError` where its trials' jobs could not be named after it."""
    if not isinstance(name, str) or not layout.SWEEP_NAME.fullmatch(name):
        raise UsageError(
            f"Sweep name {name!r} is not usable: start with a letter a-z, then at most 12 of a-z, 0-9 and '-'. Each"
            " trial's job is called after it, with its number."
        )
    return name


def sweep_name_from_run(flow_run_id: str) -> str:
    """The name of a sweep that was given none: `s-` and the last 11 hex digits of its flow run's id."""
    return f"s-{flow_run_id.replace('-', '')[-11:]}"


def _point(index: int, said: Any, space: Space) -> Point:
    what = f"first[{index}]"
    if not isinstance(said, Mapping):
        raise UsageError(f"{what} is {shown(said)}: give an object such as {{'params': {{'width': 64}}}}.")
    for key in said:
        if key not in POINT_KEYS:
            raise UsageError(f"{what} has no key {key!r}. {nearest(str(key), POINT_KEYS) or _HAS}")
    priority, accelerator = said.get("priority", 0), said.get("accelerator")
    if not is_number(priority):
        raise UsageError(f"{what}['priority'] is {shown(priority)}: give a number; the higher begins first.")
    if accelerator is not None and not isinstance(accelerator, str):
        raise UsageError(f"{what}['accelerator'] is {shown(accelerator)}: give a name such as 'v6e-16'.")
    params = check_point(f"{what}['params']", space, said.get("params", {}))
    return Point(params=params, priority=float(priority), accelerator=accelerator or None)


_HAS = f"It has: {', '.join(POINT_KEYS)}. Parameters stand in 'params'."


def _check_whole(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        upto = "or more" if most is None else f"at most {most}"
        raise UsageError(f"{name} is {shown(value)}: give a whole number, {least} {upto}.")


def _check_word(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        hint = nearest(str(value), known) or f"It is one of: {', '.join(known)}."
        raise UsageError(f"{name} is {shown(value)}. {hint}")
