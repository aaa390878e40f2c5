"""What does PyTorch need on TPUs? torch_xla, by the names that its last release has; an extra of ours.

One process drives all chips of a host, by SPMD, and hosts meet over gloo: so torch_xla wants it. A program that has
itself spread by `torch_xla.launch` has a process per chip, which meet over XLA.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from prefect_tpu.infra.errors import UsageError, WrongSlice
from prefect_tpu.infra.training.context import Context

_PACKAGE = "torch_xla"
_DEVICE = "PJRT_DEVICE"  # torch_xla's own word for the platform


def is_wanted(here: Context | None) -> bool:
    """Whether this program's devices are torch_xla's: its job is on TPUs, or its environment names them."""
    if here is not None:
        return here.plan.platform == "tpu" or _DEVICE in here.plan.env
    return _DEVICE in os.environ


def begin() -> dict[str, Any]:
    """What the process group is made with, whole or but for who is in it.

    Where this process is its host's only one, all chips of the host are its own from now on.

    Raises `UsageError` where torch_xla is not installed.
    """
    runtime = _runtime()
    if runtime.local_process_count() > 1:
        return {"backend": "xla", "init_method": "xla://"}
    if not runtime.is_spmd():
        runtime.use_spmd()
    return {"backend": "gloo"}


def check(here: Context) -> None:
    """Raise `WrongSlice` where torch_xla finds other chips than the plan promised."""
    runtime, plan = _runtime(), here.plan
    found = {
        "devices of this host": runtime.addressable_runtime_device_count() * runtime.local_process_count(),
        "devices in all": runtime.global_runtime_device_count(),
    }
    wanted = {"devices of this host": plan.devices_per_host, "devices in all": plan.devices_per_host * plan.hosts}
    wrong = [f"{name}: {found[name]} instead of {value}" for name, value in wanted.items() if found[name] != value]
    if wrong:
        raise WrongSlice(
            f"The slice is not the {plan.accelerator} of the plan: {'; '.join(wrong)}."
            " Check the accelerator's name and what else uses these chips."
        )


def planners() -> dict[str, Any]:
    """How torch's checkpoints take tensors that XLA has laid over the slice: (planner to save, planner to load).

    Empty where there are none.
    """
    if importlib.util.find_spec(_PACKAGE) is None or not _runtime().is_spmd():
        return {}
    made = importlib.import_module(f"{_PACKAGE}.experimental.distributed_checkpoint")
    return {"save": made.SPMDSavePlanner, "load": made.SPMDLoadPlanner}


def _runtime() -> Any:
    if importlib.util.find_spec(_PACKAGE) is None:
        raise UsageError(
            "The hosts of a TPU slice have PyTorch without its part for TPUs: `pip install 'prefect-tpu[torch-xla]'`"
            " into what they run. torch_xla ends with PyTorch 2.9; newer programs for TPUs are better in JAX."
        )
    return importlib.import_module(f"{_PACKAGE}.runtime")
