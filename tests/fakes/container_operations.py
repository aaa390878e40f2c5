"""Operations of the Container API: they wait, they run, they are DONE, with an error or without."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from container_clock import Clock
from container_errors import busy, not_found
from container_world import Failure, World
from google.cloud.container_v1 import Operation, StatusCondition
from google.rpc.code_pb2 import Code

API = "https://container.googleapis.com/v1"
Status = Operation.Status
End = Callable[[], Failure | None]


class Operations:
    """All of them by their full names; one per cluster at a time."""

    def __init__(self, clock: Clock, world: World) -> None:
        self._clock, self._world = clock, world
        self.messages: dict[str, Operation] = {}

    def get(self, name: str) -> Operation:
        if name not in self.messages:
            raise not_found(name)
        return self.messages[name]

    def check_idle(self, cluster: str) -> None:
        """Raises where one is under way in the cluster."""
        for message in self.messages.values():
            if message.status != Status.DONE and message.target_link.startswith(f"{API}/{cluster}/"):
                raise busy(message.name)

    def begin(self, kind: Operation.Type, pool: str, seconds: float, end: End) -> Operation:
        """One on a pool that ends after so many seconds of running."""
        place = pool.partition("/clusters/")[0]
        name = f"operation-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        message = self.messages[f"{place}/operations/{name}"] = Operation(
            name=name,
            operation_type=kind,
            status=Status.PENDING,
            location=place.rpartition("/")[2],
            zone=place.rpartition("/")[2],
            start_time=_now(),
            target_link=f"{API}/{pool}",
            self_link=f"{API}/{place}/operations/{name}",
        )
        self._clock.after(self._world.delays.pending, lambda: self._run(message, seconds, end))
        return message

    def _run(self, message: Operation, seconds: float, end: End) -> None:
        message.status = Status.RUNNING
        self._clock.after(seconds, lambda: _finish(message, end()))


def condition(lack: Failure) -> StatusCondition:
    """What a pool says of what it lacks."""
    code = StatusCondition.Code[lack.condition]
    return StatusCondition(code=code, message=lack.message, canonical_code=Code.Value(lack.code))


def _finish(message: Operation, lack: Failure | None) -> None:
    message.status, message.end_time = Status.DONE, _now()
    if lack:
        message.status_message = message.detail = lack.message
        message.error = {"code": Code.Value(lack.code), "message": lack.message}
        message.nodepool_conditions = [condition(lack)]


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
