"""When a container that has ended is started again."""

from __future__ import annotations

from kubelet.container import Container, Terminated

LONGEST_BACK_OFF_SECONDS = 30.0  # a tenth of the real kubelet's, as the first one of a second is


def is_restarted(container: Container, policy: str) -> bool:
    """Whether it is, by the pod's restart policy; one that has not ended is not."""
    if not isinstance(container.state, Terminated):
        return False
    if container.is_sidecar:
        return True
    if container.is_init:
        return policy != "Never" and container.has_failed
    return policy == "Always" or (policy == "OnFailure" and container.has_failed)


def back_off_seconds(container: Container) -> float:
    """How long until then: twice as long each time."""
    return float(min(2.0**container.restarts, LONGEST_BACK_OFF_SECONDS))
