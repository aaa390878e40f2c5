"""How do the hosts of a PyTorch program find each other, and is it the slice that was promised?"""

from __future__ import annotations

import os
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import CouldNotJoin, WrongSlice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.training import agreement, meeting, torch_on_tpus, torch_peers
from prefect_tpu.infra.training.context import Context, context
from prefect_tpu.infra.training.progress import progress

# What torch's own launcher says, and only it. Its processes are several to a host: their numbers are not our hosts'.
_TORCHRUN = "TORCHELASTIC_RUN_ID"
_OF_A_LAUNCHER = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


def join() -> None:
    """Make the process group that all hosts are in: over NCCL where they have GPUs, else gloo.

    Alone, it is a group of one, so that the same program runs. Calling it again does nothing; nor does it where the
    program, or a library such as Accelerate, has made the group itself.
    """
    import torch.distributed as dist

    agreement.speak_over(torch_peers)
    here = context()
    if dist.is_initialized():
        return
    if here is not None:
        _set_words(here)
        _take_its_share(here.plan)
    on_tpus = torch_on_tpus.is_wanted(here)
    over = torch_on_tpus.begin() if on_tpus else {"backend": _backend()}
    if "init_method" in over:
        _begin(over, "this program")
    elif here is None or _TORCHRUN in os.environ:
        _begin({**_as_launched(), **over}, "this program")
    else:
        _meet(here)
        _begin({**_as_planned(here), **over}, f"host {here.host} of job {here.plan.job!r}")
    if on_tpus and here is not None:
        torch_on_tpus.check(here)
    _check(here)
    agreement.meet("prefect_tpu joined")
    progress().event(Event.JOINED)


def _backend() -> str:
    import torch
    import torch.distributed as dist

    if not (torch.cuda.is_available() and dist.is_nccl_available()):
        return "gloo"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    return "nccl"


def _as_launched() -> dict[str, Any]:
    """As torch's launcher or Kubeflow says it; a group of one where nobody does."""
    import torch.distributed as dist

    if all(name in os.environ for name in _OF_A_LAUNCHER):
        return {"init_method": "env://"}
    return {"store": dist.HashStore(), "rank": 0, "world_size": 1}


def _as_planned(here: Context) -> dict[str, Any]:
    import torch.distributed as dist

    if here.plan.hosts == 1:
        return {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    return {"init_method": f"tcp://{here.plan.coordinator}", "rank": here.host, "world_size": here.plan.hosts}


def _begin(group: dict[str, Any], what: str) -> None:
    import torch.distributed as dist

    try:
        dist.init_process_group(**group)
    except (RuntimeError, ValueError) as exc:
        raise CouldNotJoin(
            f"PyTorch could not make the process group of {what}: {exc}. Look at the logs of the other processes: one"
            " has ended since, or another program has the port."
        ) from exc


def _meet(here: Context) -> None:
    plan = here.plan
    if plan.hosts > 1:
        name = layout.attempt_name(plan.job, plan.attempt)
        word = name if plan.region is None else f"{name}/{plan.region}"
        meeting.wait_for_hosts(plan.coordinator, word, here.host, plan.hosts, plan.join_timeout)


def _set_words(here: Context) -> None:
    """What libraries look for, where a runner has not said it: Accelerate goes by these words alone."""
    address, _, port = here.plan.coordinator.rpartition(":")
    host, hosts = str(here.host), str(here.plan.hosts)
    said = {"MASTER_ADDR": address, "MASTER_PORT": port, "RANK": host, "WORLD_SIZE": hosts, "LOCAL_RANK": "0"}
    if here.plan.platform == "cpu":
        said["ACCELERATE_USE_CPU"] = "true"
    for name, value in said.items():
        os.environ.setdefault(name, value)


def _take_its_share(plan: HostPlan) -> None:
    """Hosts that are processes of one machine would each start a thread per core, and wait for each other's."""
    import torch

    if plan.backend == "local" and plan.platform == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // plan.hosts))


def _check(here: Context | None) -> None:
    """Whether there are as many processes and GPUs as the plan promised, all of one kind."""
    import torch

    processes = agreement.peers()
    if here is not None and processes % here.plan.hosts:
        raise WrongSlice(f"{processes} processes have met on {here.plan.hosts} hosts: start as many on each.")
    if here is not None and here.plan.platform == "cuda" and torch.cuda.device_count() != here.plan.devices_per_host:
        raise WrongSlice(
            f"The slice is not the {here.plan.accelerator} of the plan: PyTorch finds {torch.cuda.device_count()} GPUs"
            f" on host {here.host} instead of {here.plan.devices_per_host}. Look what `prefect-tpu doctor` says of"
            " gpus; PyTorch for CUDA is what `pip install torch` installs on Linux."
        )
    kinds = agreement.from_all(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")
    if len(set(kinds)) > 1:
        counted = ", ".join(f"{kinds.count(kind)} of {kind}" for kind in sorted(set(kinds)))
        raise WrongSlice(f"The processes have devices of different kinds, {counted}: give the job hosts of one kind.")
