"""What is one failure, and what must come of it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from control_plane import Object
from stage import Stage

from prefect_tpu.infra.errors import FailureKind

HOSTS = 2
ACCELERATOR = "v5p-16"  # the smallest slice of more than one host
Strike = Callable[[Stage, str], None]

# What a program does on the host that is struck, after the strike; `STAY` on all others.
STAY = "sleep 600 & wait $!"


def nothing(stage: Stage, jobset: str) -> None:
    """The failure is there from the start."""


def tell(stage: Stage, jobset: str) -> None:
    """The program itself does what is to happen."""
    stage.strike_file(jobset).touch()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One failure, played with our launcher and then with a JobSet that Kubernetes restarts.

    title: what happens, for people.
    kind, is_retryable: what the launcher makes of it.
    strike: does it to a JobSet whose hosts run (`waits_for` is `running`), that is there (`sent`), or at once.
    prepare: before a job is sent. relieve: once another attempt has begun.
    act: what host 1 does when it is told to, in shell; or `function`, of programs/failing.py.
    spoil: whether the code that was laid down is changed before a host reads it.
    pools: how many slices there are.
    pods, settings: of the job.
    change_plain: of the JobSet's pod; None where JobSet has nothing that it could restart.
    is_one_way: whether it is told by the same words each time; else one of two controllers comes first.
    is_quick: whether a slice is to be had at once, so that the next attempt must be there within the goal.
    """

    name: str
    title: str
    kind: FailureKind
    is_retryable: bool
    strike: Strike = tell
    prepare: Callable[[Stage], None] = lambda stage: None
    relieve: Callable[[Stage], None] = lambda stage: None
    act: str = STAY
    function: str = ""
    spoil: bool = False
    accelerator: str = ACCELERATOR
    pools: int = 2
    waits_for: str = "running"
    pods: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    change_plain: Callable[[Object], None] | None = None
    plain_seconds: float = 20.0
    is_one_way: bool = True
    is_quick: bool = False
    needs_kueue: bool = False
