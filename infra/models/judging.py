"""What did the judge measure, and what is written down of it?"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from prefect_tpu.infra import returned, start_points
from prefect_tpu.infra.errors import PrefectTpuError, UsageError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.job_checks import shown
from prefect_tpu.infra.launcher import history, values
from prefect_tpu.infra.layout import LONGEST_JOB_NAME
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

    def __post_init__(self) -> None:
        if not self.metric:
            raise UsageError("metric is empty: name the number that counts, a key of what evaluate returns.")
        if not 0 <= self.min_improvement < math.inf:
            raise UsageError(f"min_improvement is {self.min_improvement}: give a number, 0 or more.")

    @property
    def mark(self) -> str:
        """Another one for other code or arguments: what was measured by the one says nothing of the other.

        Raises `UsageError` where there is no such judge, or it is one that returns nothing.
        """
        packed = pack(self.program, self.params, ())
        if packed.program.kind == "command":
            raise UsageError(
                f"evaluate {self.program!r} is a script or command, which returns nothing: name path.py:function or"
                " pkg.mod:function."
            )
        said = [packed.program.payload, packed.program.target, dict(self.params)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def evaluation(candidate: int, version: int, mark: str, before: int = 0) -> str:
    """The job that measures a version on the held-out data of a candidate. before: how many others were to."""
    whole = mark if before == 0 else hashlib.sha256(f"{mark} {before}".encode()).hexdigest()
    return f"e{candidate}-{version}-{whole}"[:LONGEST_JOB_NAME]


def evaluations_to_try(output: str, candidate: int, version: int, rule: Rule) -> Iterator[str]:
    """The jobs that may measure a version, the first one to try first: without those whose answer is of no use.

    A judge that was mended where its code does not travel, as in an image, has the same mark as before.
    """
    mark = rule.mark
    names = (evaluation(candidate, version, mark, before) for before in count())
    return (name for name in names if not _is_useless(output, name, rule))


def _is_useless(output: str, name: str, rule: Rule) -> bool:
    result = history.read_result(open_storage(output).inside(name))
    if result is None or result.state != "succeeded":
        return False
    try:
        numbers_of(result, rule)
    except UsageError:
        return True
    return False


def place_of(output: str, job: str) -> str:
    """Where the model of a job lies that has succeeded: its newest checkpoint, else its folder."""
    storage = open_storage(output).inside(job)
    newest = start_points.newest(storage)
    return storage.url if newest is None else str(newest)


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
    value = _value_of(result, rule)
    found = value if isinstance(value, Mapping) else {}
    numbers = {str(name): number for name, one in found.items() if (number := returned.number(one)) is not None}
    if rule.metric not in numbers:
        raise UsageError(
            f"{rule.program} measured no {rule.metric!r} (job {result.job!r} returned {shown(value)}): let it return a"
            f" dictionary such as {{{rule.metric!r}: 0.1}}, or name another metric. The candidate stays as it is until"
            " then."
        )
    return numbers


def _value_of(result: JobResult, rule: Rule) -> Any:
    try:
        return values.load(open_storage(result.output), result.attempts[-1].number)
    except PrefectTpuError:
        raise
    except Exception as exc:  # whatever a pickle of the judge's raises here, where its packages may not be
        raise UsageError(
            f"What {rule.program} returned (job {result.job!r}) cannot be read here: {exc!r}. Let it return plain"
            " numbers, such as float(loss). The candidate stays as it is until then."
        ) from exc


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
        is_champion_lost=standing.champion is not None,
    )
    became = Became.PROMOTED if found.is_promoted else Became.KEPT
    entry = replace(unchanged(standing, candidate, became, found.reason, now), tried=version, rival=dict(rival or {}))
    if not found.is_promoted:
        return entry
    return replace(entry, champion=version.number, promoted_by=entry.number)
