"""What does a kind of failure mean? Whether the launcher tries again, and what a person is told to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prefect_tpu.infra.errors import Failure, FailureKind

RETRYABLE = frozenset(
    {
        FailureKind.PREEMPTED,
        FailureKind.MAINTENANCE,
        FailureKind.HOST_LOST,
        FailureKind.NO_CAPACITY,
        FailureKind.UNSCHEDULABLE,
        FailureKind.COULD_NOT_JOIN,
        FailureKind.STALLED,
        FailureKind.UNKNOWN,
    }
)

ADVICE = {
    FailureKind.PREEMPTED: "Nothing to do: the next attempt goes on from the newest checkpoint.",
    FailureKind.MAINTENANCE: "Nothing to do: the next attempt goes on from the newest checkpoint.",
    FailureKind.HOST_LOST: "The next attempt goes on from the newest checkpoint. If it happens again at the same"
    " step, look for what ends processes there: the host's memory, a batch system, the program itself.",
    FailureKind.NO_CAPACITY: "Give several accelerators, in a cluster also several zones or clusters, in order of"
    " preference; or try again later.",
    FailureKind.NO_QUOTA: "Ask for more quota, or choose a smaller accelerator.",
    FailureKind.UNSCHEDULABLE: "Check that the cluster has a node pool of this accelerator.",
    FailureKind.IMAGE: "Check the image's name, that the nodes may pull it, and that it has the Python that is named"
    " (python=…); then run the job again by the same name.",
    FailureKind.COULD_NOT_JOIN: "Check that the hosts reach the leader's port, and give join_timeout more seconds"
    " where programs start slowly.",
    FailureKind.WRONG_TOPOLOGY: "Check the accelerator's name against the slice that was used.",
    FailureKind.PROGRAM_ERROR: "Correct the program and run it under a new name. For errors that pass by"
    " themselves allow some max_failures, or run the same name again.",
    FailureKind.OUT_OF_MEMORY: "Use a smaller batch, shard more, or choose a larger accelerator.",
    FailureKind.STALLED: "Look at the stacks for what the hosts waited for; the next attempt goes on from the newest"
    " checkpoint. Where a step may take longer, give stall_timeout more seconds.",
    FailureKind.DEADLINE: "Give the job a later deadline and run it again: it goes on from its checkpoint.",
    FailureKind.STOPPED: "Run the same name again to go on.",
    FailureKind.REFUSED: "Nothing of the program has run there: mend that, then run the job again by the same name.",
    FailureKind.UNKNOWN: "Look at the logs of all hosts.",
}


def failure(kind: FailureKind, message: str, *, host: int | None = None, evidence: Iterable[str] = ()) -> Failure:
    """A failure with its kind's advice and its kind's answer to whether to try again."""
    return Failure(
        kind=kind,
        retryable=kind in RETRYABLE,
        message=message,
        advice=ADVICE[kind],
        host=host,
        evidence=tuple(evidence),
    )


def with_saves(cause: Failure | None, saved_steps: Iterable[int | None]) -> Failure | None:
    """A stop says what is saved: whoever stopped the job wants to know. Other failures stay as they are."""
    if cause is None or cause.kind is not FailureKind.STOPPED:
        return cause
    saved = max((step for step in saved_steps if step is not None), default=None)
    said = "No step was saved." if saved is None else f"Step {saved} is saved."
    return replace(cause, message=f"{cause.message} {said}")
