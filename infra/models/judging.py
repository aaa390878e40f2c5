"""What did the judge measure, and what is written down of it?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prefect_tpu.infra import layout, start_points
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import history, values
from prefect_tpu.infra.models.beginning import unchanged
from prefect_tpu.infra.models.records import Became, Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Standing
from prefect_tpu.infra.packing import pack
from prefect_tpu.infra.policy.retraining import Mode, judge
from prefect_tpu.infra.storage import open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a candidate is compared with the champion.

    program: what measures a model: a program that reads its weights and returns a dictionary of numbers.
    params: its keyword arguments.
    metric: the number that counts. mode: which of two is better.
    min_improvement: how much better a candidate must be.
    """

    program: str
    params: Mapping[str, Any]
    metric: str
    mode: Mode
    min_improvement: float

    @property
    def mark(self) -> str:
        """Another one for other code or arguments: what was measured by the one says nothing of the other."""
        packed = pack(self.program, self.params, ())
        said = [packed.program.payload, packed.program.target, dict(self.params)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:4]


def evaluation(candidate: int, version: int, rule: Rule) -> str:
    """The job that measures a version on the held-out data of a candidate."""
    return f"e{candidate}-{version}-{rule.mark}"


def place_of(output: str, job: str) -> str:
    """Where the model of a job lies that has succeeded: its newest checkpoint, else its folder."""
    storage = open_storage(output).inside(job)
    newest = start_points.newest(storage)
    return storage.url if newest is None else str(newest)


def is_there(version: Version) -> bool:
    """Whether the job of a version can still be read."""
    return open_storage(version.job).changed(layout.JOB) is not None


def version_of(candidate: Candidate, output: str, place: str, rule: Rule, measured: Mapping[str, float]) -> Version:
    """The candidate, now that it was trained and measured, with all that it came from. place: of its model."""
    storage = open_storage(output).inside(candidate.job)
    job = history.read_job(storage)
    assert job is not None, "it has succeeded"
    config = {
        "program": job.program.target,
        "params": job.program.params,
        "accelerators": list(job.accelerators),
        "slices": job.slices,
        "start_from": candidate.start_from,
        "judge": {"program": rule.program, "params": dict(rule.params), "metric": rule.metric, "mode": rule.mode.value},
    }
    return Version(
        number=candidate.number,
        job=storage.url,
        checkpoint=place,
        data=candidate.data,
        held_out=candidate.held_out,
        watched=candidate.watched,
        code=job.program.payload or "",
        config=config,
        parent=candidate.parent,
        metrics=dict(measured),
    )


def numbers_of(result: JobResult, rule: Rule) -> dict[str, float]:
    """What a judge returned, numbers of NumPy and JAX too.

    Raises `UsageError` where the number that counts is not in it.
    """
    value = values.load(open_storage(result.output), result.attempts[-1].number)
    found = value if isinstance(value, Mapping) else {}
    numbers = {str(name): number for name, one in found.items() if (number := _number(one)) is not None}
    if rule.metric not in numbers:
        raise UsageError(
            f"{rule.program} measured no {rule.metric!r} (job {result.job!r} returned {value!r}): let it return a"
            f" dictionary such as {{{rule.metric!r}: 0.1}}, or name another metric. The candidate stays as it is until"
            " then."
        )
    return numbers


def _number(value: object) -> float | None:
    """None of what is none, such as text that reads like one."""
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):  # an array of several
        return None


def verdict(
    standing: Standing,
    candidate: Candidate,
    version: Version,
    rival: Mapping[str, float] | None,
    rule: Rule,
    now: float,
) -> Entry:
    """The record that ends a candidate, for the history as it stands. rival: of the champion; None without one."""
    found = judge(
        rule.metric,
        rule.mode,
        version.metrics[rule.metric],
        None if rival is None else rival[rule.metric],
        rule.min_improvement,
    )
    became = Became.PROMOTED if found.is_promoted else Became.KEPT
    entry = replace(unchanged(standing, candidate, became, found.reason, now), tried=version, rival=dict(rival or {}))
    if not found.is_promoted:
        return entry
    return replace(entry, champion=version.number, promoted_by=entry.number)
