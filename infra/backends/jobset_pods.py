"""Which pods has an attempt, and had it? Kubernetes forgets a pod soon after its end; this does not."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.backends.jobset_facts import PodFacts
from prefect_tpu.infra.backends.jobset_reading import read_pod
from prefect_tpu.infra.backends.jobset_roles import Helpers

Object = dict[str, Any]


class PodMemory:
    """Every pod that was seen, as it was seen last."""

    def __init__(self, hosts_per_slice: int, helpers: Helpers | None = None) -> None:
        self._hosts_per_slice, self._helpers = hosts_per_slice, helpers
        self._pods: dict[str, PodFacts] = {}

    def came(self, pod: Object) -> None:
        """It is there, like this."""
        self._pods[pod["metadata"]["uid"]] = self._read(pod)

    def went(self, pod: Object) -> None:
        """It is gone, and was like this last."""
        self._pods[pod["metadata"]["uid"]] = self._read(pod, is_gone=True)

    def _read(self, pod: Object, *, is_gone: bool = False) -> PodFacts:
        return read_pod(pod, self._hosts_per_slice, self._helpers, is_gone=is_gone)

    @property
    def facts(self) -> tuple[PodFacts, ...]:
        """The oldest first."""
        return tuple(sorted(self._pods.values(), key=lambda pod: (pod.created_at, pod.name)))

    @property
    def ended(self) -> frozenset[str]:
        """The uids of those that have ended."""
        return frozenset(uid for uid, pod in self._pods.items() if pod.has_ended)

    @property
    def is_waiting_for_node(self) -> bool:
        return any(pod.unschedulable and not pod.node and not pod.has_ended for pod in self._pods.values())

    def is_on(self, node: str) -> bool:
        return any(pod.node == node for pod in self._pods.values())

    @property
    def are_placed(self) -> int:
        """How many are on a node, or have been."""
        return sum(1 for pod in self._pods.values() if pod.node)

    def has(self, uid: str) -> bool:
        return uid in self._pods
