"""What a running pod is told (its mailbox takes these and what its probes say), and what becomes of it then."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane import Object

from kubelet.container import Container
from kubelet.status import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The API server has another version of the pod."""

    pod: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A container's process is over."""

    container: Container
    process: object


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutDown:
    """The node shuts down; the pod has at most so many seconds."""

    seconds: float


class Gone:
    """The pod's object is deleted, or its host is no more: end it without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The pod is on its way out."""

    kill_at: float
    verdict: Verdict | None
