"""How did a sweep end? Its best trial, with the model it leaves, and all others."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import SweepFailed
from prefect_tpu.infra.launcher.history import said_where
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.driver import SweepDriver
from prefect_tpu.infra.sweep.study import Trial, best


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One trial of a sweep.

    number: counted from 0, in the order in which they began.
    job: the name of its job.
    state: `complete`, `pruned` or `failed`.
    params: the values of the space that it tried.
    value: of the metric: at the end of a complete one, as last compared of a pruned one; else None.
    steps: how many it had done when it was last compared with others.
    accelerator: what it asked for first.
    chips: that it held.
    """

    number: int
    job: str
    state: str
    params: dict[str, Any]
    value: float | None
    steps: int
    accelerator: str
    chips: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """How a sweep ended.

    sweep: its name.
    metric, mode: what was sought.
    best: number of the best trial.
    value: of its metric.
    params: the values of the space that it tried.
    output: the folder of its job.
    checkpoint: path or URL of the newest whole checkpoint of that job; None where it saved none.
    trials: all of them, by their numbers.
    """

    sweep: str
    metric: str
    mode: str
    best: int
    value: float
    params: dict[str, Any]
    output: str
    checkpoint: str | None
    trials: tuple[TrialResult, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "trials": [asdict(trial) for trial in self.trials]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SweepResult:
        known = {f.name for f in fields(cls)}
        with contract.reading("The result of a sweep"):
            trials = tuple(TrialResult(**trial) for trial in data["trials"])
            return cls(**{**{key: value for key, value in data.items() if key in known}, "trials": trials})


def read_sweep_result(storage: Storage) -> SweepResult | None:
    """Of the sweep whose folder this is; None while it has no end."""
    raw = storage.get(layout.RESULT)
    if raw is None:
        return None
    with said_where(storage, layout.RESULT):
        return SweepResult.from_json(contract.read_json(raw, layout.RESULT))


def conclude(driver: SweepDriver) -> SweepResult:
    """Write the end of a sweep that is over, create-only.

    Raises `SweepFailed` where no trial has a value; then nothing is written.
    """
    trials, asked = driver.study.trials(), driver.asked
    found = best(trials, asked.mode)
    if found is None or found.value is None:
        raise SweepFailed(
            f"No trial of sweep {asked.name!r} has a value of {asked.metric!r}: {_counted(trials)}. See what the jobs"
            f" {asked.job_of(0)}, … say, and run the sweep under another name once that is mended."
        )
    job = driver.job(found.number)
    result = SweepResult(
        sweep=asked.name,
        metric=asked.metric,
        mode=asked.mode,
        best=found.number,
        value=found.value,
        params=found.params,
        output=job.storage.url,
        checkpoint=job.checkpoint(),
        trials=tuple(_of_trial(driver, trial) for trial in trials),
    )
    driver.storage.put_if_absent(layout.RESULT, contract.write_json(result.to_json()))
    written = read_sweep_result(driver.storage)
    assert written is not None, "result.json was written above"
    return written


def _of_trial(driver: SweepDriver, trial: Trial) -> TrialResult:
    return TrialResult(
        number=trial.number,
        job=driver.asked.job_of(trial.number),
        state=trial.state.value,
        params=trial.params,
        value=trial.value,
        steps=trial.last_step,
        accelerator=driver.asked.accelerators_of(trial.number)[0],
        chips=driver.asked.chips_of(trial.number),
    )


def _counted(trials: list[Trial]) -> str:
    states = [trial.state.value for trial in trials]
    return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "there was none"
