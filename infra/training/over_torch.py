"""What differs in the block of `checkpoints` where hosts run PyTorch? They agree over gloo; nothing is JAX's."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.training import agreement, torch_peers
from prefect_tpu.infra.training.checkpoints import Checkpoints
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.preemption import Notice, OwnNotice
from prefect_tpu.infra.training.torch_notice import TorchNotice


class OverTorch(Checkpoints):
    """Whoever inherits says how a checkpoint is written and read."""

    def __enter__(self) -> Checkpoints:
        agreement.speak_over(torch_peers)
        return super().__enter__()

    def _new_notice(self) -> Notice:
        return TorchNotice() if agreement.peers() > 1 else OwnNotice()

    def _is_there(self, state: Any) -> bool:
        return True  # nothing is donated

    def _saved_on(self, state: Any) -> dict[str, Any]:
        import torch

        here = context()
        devices = agreement.peers() if here is None else here.plan.hosts * here.plan.devices_per_host
        return {"devices": devices, "mesh": {}, "versions": {"torch": str(torch.__version__)}}
