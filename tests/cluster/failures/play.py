"""One failure from its first signal to the next attempt: with our launcher, then with JobSet's own restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import by_jobset
import ours
from case import HOSTS, Case
from control_plane import Object
from ours import FIRST, SECOND, Driven
from recorded import Recording
from recorder import Change
from snapshots import snapshot
from stage import CASE_LABEL, Stage

from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import AttemptSummary

T = TypeVar("T")
LONGEST_SECONDS = 200.0
OF_EVERY_SLICE = {"google.com/tpu", "cloud.google.com/gke-spot"}  # taints of nodes that are well
MAINTENANCE = "cloud.google.com/active-node-maintenance"
QUICK_SECONDS = 6.0  # of whatever restarts, as JobSet does where a pod failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Seconds until something was begun anew: since it was caused, and since the API server first showed it."""

    since_caused: float
    since_shown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a case.

    failure: of the first attempt, or of the job where it had none. attempts: that were made.
    ours, jobset: how long until the next attempt, or JobSet's restart, was there; None where none came.
    """

    case: Case
    state: str
    attempts: tuple[AttemptSummary, ...]
    failure: Failure
    recording: Recording | None
    ours: Delay | None
    jobset: Delay | None


def play(case: Case, stage: Stage, turn: threading.Semaphore) -> Outcome:
    """All of it; the stage is made and cleared by whoever calls.

    turn: held while pods start and while seconds are measured, so that cases do not measure each other.
    """
    case.prepare(stage)
    driven, delay = _ours(case, stage, turn)
    restarted = None
    if case.change_plain is not None:
        stage.restore()
        restarted = _plain(case, stage, turn)
    first = driven.result.attempts[0] if driven.result.attempts else None
    failure = first.failure if first else driven.result.failure
    assert failure is not None, f"{case.name}: nothing failed"
    failure = replace(failure, message=failure.message.replace(str(stage.folder), "/shared"))
    recording = snapshot(stage, driven) if driven.closings else None
    return Outcome(
        case=case,
        state=driven.result.state,
        attempts=driven.result.attempts,
        failure=failure,
        recording=recording,
        ours=delay,
        jobset=restarted,
    )


def _ours(case: Case, stage: Stage, turn: threading.Semaphore) -> tuple[Driven, Delay | None]:
    def is_next(change: Change) -> bool:
        return change.kind == "jobset" and (change.namespace, change.name) == (stage.name, SECOND)

    began = time.monotonic()
    with ExitStack() as busy:
        busy.enter_context(turn)
        job, storage = ours.job(stage, case)
        running = in_background(lambda: ours.drive(job, storage))
        caused = _strike(case, stage, FIRST, running)
        if not case.is_quick:
            busy.close()
        next_one = _first(stage, is_next, began, running)
    if next_one is not None:
        case.relieve(stage)
    return running.result(LONGEST_SECONDS), _delay(stage, caused, next_one)


def _plain(case: Case, stage: Stage, turn: threading.Semaphore) -> Delay | None:
    def is_next(change: Change) -> bool:
        labels = change.body["metadata"].get("labels", {})
        is_job = change.kind == "job" and change.namespace == stage.name
        return is_job and change.name.startswith(by_jobset.NAME) and labels.get(by_jobset.RESTARTS) == "1"

    with turn:
        by_jobset.send(stage, case)
        caused = _strike(case, stage, by_jobset.NAME, None)
        quick = stage.recorder.wait_for(is_next, caused, min(QUICK_SECONDS, case.plain_seconds))
    return _delay(stage, caused, quick or stage.recorder.wait_for(is_next, caused, case.plain_seconds - QUICK_SECONDS))


def _strike(case: Case, stage: Stage, jobset: str, running: Future[Driven] | None) -> float:
    """Do it when its time has come; the moment just before."""
    if case.waits_for == "running":
        stage.running(jobset, HOSTS) if running is None else _unless_over(stage, jobset, running)
    elif case.waits_for == "sent":
        path = stage.path("jobset.x-k8s.io/v1alpha2", "jobsets", jobset)
        stage.until(lambda: stage.api.get(path), f"JobSet {jobset}")
    caused = time.monotonic()
    case.strike(stage, jobset)
    return caused


def _unless_over(stage: Stage, jobset: str, running: Future[Driven]) -> None:
    """A job that ended before all of it ran has said why."""
    try:
        stage.running(jobset, HOSTS)
    except TimeoutError as exc:
        if running.done():
            raise TimeoutError(f"{exc}; the job ended: {running.result().result.failure}") from exc
        raise


def _first(stage: Stage, is_it: Callable[[Change], bool], since: float, running: Future[Driven]) -> Change | None:
    """The first such change, looked for until the job has ended."""
    while True:
        over = running.done()
        found = stage.recorder.wait_for(is_it, since, 0.2)
        if found is not None or over:
            return found


def _delay(stage: Stage, caused: float, found: Change | None) -> Delay | None:
    if found is None:
        return None
    shown = next((change.at for change in stage.recorder.changes(caused) if _is_sign(stage, change)), found.at)
    return Delay(since_caused=found.at - caused, since_shown=found.at - shown)


def _is_sign(stage: Stage, change: Change) -> bool:
    """Anything that the API server says of this case's pods, jobs and nodes."""
    if change.kind == "node":
        is_ours = change.body["metadata"].get("labels", {}).get(CASE_LABEL) == stage.name
        return is_ours and (change.is_gone or _is_unwell(change.body))
    return change.namespace == stage.name and change.kind in ("pod", "job", "jobset", "workload")


def _is_unwell(node: Object) -> bool:
    """Not a mere heartbeat: it is not ready, is closed by a taint of its own, or is being maintained."""
    conditions = node.get("status", {}).get("conditions", ())
    ready = next((found["status"] for found in conditions if found["type"] == "Ready"), "Unknown")
    taints = {taint["key"] for taint in node["spec"].get("taints", ())} - OF_EVERY_SLICE
    return ready != "True" or bool(taints) or MAINTENANCE in node["metadata"]["labels"]


def in_background(work: Callable[[], T]) -> Future[T]:
    """In a thread of its own, which does not keep the tests from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    return future
