"""Must a PyTorch program leave? Each host says at a call whether it was told to, and all hear of it at the next."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.training import torch_peers
from prefect_tpu.infra.training.preemption import OwnNotice


class TorchNotice:
    """For several processes: torch has no service for this.

    The question goes round while the step is computed, so no host waits for it; and its answer to one call is the same
    on all hosts, so all leave at the same one.
    """

    def __init__(self) -> None:
        self._own = OwnNotice()
        self._asked: tuple[Any, Any] | None = None  # (what is under way, where its answer will be)

    def begin(self) -> None:
        self._own.begin()

    def has_come(self, call: int) -> bool:
        """Whether a host had been told to leave by the call before."""
        came = self._answer()
        if not came:
            self._ask(call)
        return came

    def end(self) -> None:
        """The last question is left as it is: after a failure its answer may never come."""
        self._own.end()

    def _ask(self, call: int) -> None:
        import torch
        import torch.distributed as dist

        told = torch.tensor([int(self._own.has_come(call))])
        work = dist.all_reduce(told, op=dist.ReduceOp.MAX, group=torch_peers.group(), async_op=True)
        self._asked = work, told

    def _answer(self) -> bool:
        if self._asked is None:
            return False
        (work, told), self._asked = self._asked, None
        work.wait()
        return bool(told.item())
