"""Train on TPU slices from Prefect: every public name, each loaded on first use.

This file installs as `prefect_tpu` itself. Importing it imports nothing else, so
that a program on a host and `prefect-tpu --help` pay only for what they use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOME = {
    # asking for a job
    "train": "prefect_tpu.flows.call",
    "sweep": "prefect_tpu.flows.sweep_call",
    "run": "prefect_tpu.flows.run",
    "submit": "prefect_tpu.flows.job",
    "attach": "prefect_tpu.flows.job",
    "tpu_slice": "prefect_tpu.flows.work_pool.decorator",
    "Job": "prefect_tpu.flows.job",
    "JobStatus": "prefect_tpu.infra.launcher.status",
    "SliceJob": "prefect_tpu.infra.job",
    "JobResult": "prefect_tpu.infra.job",
    "SweepResult": "prefect_tpu.infra.sweep.result",
    "Slice": "prefect_tpu.infra.accelerators",
    "resolve": "prefect_tpu.infra.accelerators",
    # models that are trained again and again
    "retrain": "prefect_tpu.flows.retraining",
    "champion": "prefect_tpu.infra.models.champion",
    "Champion": "prefect_tpu.infra.models.records",
    # a flow on a slice
    "every_host": "prefect_tpu.flows.every_host",
    # where jobs run
    "GKECluster": "prefect_tpu.blocks.gke_cluster",
    # the program's side
    "join": "prefect_tpu.infra.training.join",
    "mesh": "prefect_tpu.infra.training.mesh",
    "fsdp": "prefect_tpu.infra.training.fsdp",
    "shard": "prefect_tpu.infra.training.shard",
    "batches": "prefect_tpu.infra.training.batches",
    "global_array": "prefect_tpu.infra.training.global_array",
    "checkpoints": "prefect_tpu.infra.training.checkpoints",
    "torch_checkpoints": "prefect_tpu.infra.training.torch_checkpoints",
    "transformers_trainer": "prefect_tpu.infra.training.transformers_trainer",
    "keras_checkpoints": "prefect_tpu.infra.training.keras_checkpoints",
    "step": "prefect_tpu.infra.training.step",
    "report": "prefect_tpu.infra.training.report",
    "info": "prefect_tpu.infra.training.info",
    # guards of the program
    "agree": "prefect_tpu.infra.training.agree",
    "barrier": "prefect_tpu.infra.training.barrier",
    "leader_print": "prefect_tpu.infra.training.printing",
    "show": "prefect_tpu.infra.training.printing",
    # what can go wrong
    "Conflict": "prefect_tpu.infra.errors",
    "Failure": "prefect_tpu.infra.errors",
    "FailureKind": "prefect_tpu.infra.errors",
    "HostsDiffer": "prefect_tpu.infra.errors",
    "HostsMissing": "prefect_tpu.infra.errors",
    "JobFailed": "prefect_tpu.infra.errors",
    "NoSuchJob": "prefect_tpu.infra.errors",
    "PlatformError": "prefect_tpu.infra.errors",
    "Preempted": "prefect_tpu.infra.errors",
    "PrefectTpuError": "prefect_tpu.infra.errors",
    "RegionFailed": "prefect_tpu.infra.errors",
    "SweepFailed": "prefect_tpu.infra.errors",
    "UsageError": "prefect_tpu.infra.errors",
}

__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:  # the same table for type checkers and editors; a house test compares the two
    from prefect_tpu.blocks.gke_cluster import GKECluster as GKECluster
    from prefect_tpu.flows.call import train as train
    from prefect_tpu.flows.every_host import every_host as every_host
    from prefect_tpu.flows.job import Job as Job
    from prefect_tpu.flows.job import attach as attach
    from prefect_tpu.flows.job import submit as submit
    from prefect_tpu.flows.retraining import retrain as retrain
    from prefect_tpu.flows.run import run as run
    from prefect_tpu.flows.sweep_call import sweep as sweep
    from prefect_tpu.flows.work_pool.decorator import tpu_slice as tpu_slice
    from prefect_tpu.infra.accelerators import Slice as Slice
    from prefect_tpu.infra.accelerators import resolve as resolve
    from prefect_tpu.infra.errors import Conflict as Conflict
    from prefect_tpu.infra.errors import Failure as Failure
    from prefect_tpu.infra.errors import FailureKind as FailureKind
    from prefect_tpu.infra.errors import HostsDiffer as HostsDiffer
    from prefect_tpu.infra.errors import HostsMissing as HostsMissing
    from prefect_tpu.infra.errors import JobFailed as JobFailed
    from prefect_tpu.infra.errors import NoSuchJob as NoSuchJob
    from prefect_tpu.infra.errors import PlatformError as PlatformError
    from prefect_tpu.infra.errors import Preempted as Preempted
    from prefect_tpu.infra.errors import PrefectTpuError as PrefectTpuError
    from prefect_tpu.infra.errors import RegionFailed as RegionFailed
    from prefect_tpu.infra.errors import SweepFailed as SweepFailed
    from prefect_tpu.infra.errors import UsageError as UsageError
    from prefect_tpu.infra.job import JobResult as JobResult
    from prefect_tpu.infra.job import SliceJob as SliceJob
    from prefect_tpu.infra.launcher.status import JobStatus as JobStatus
    from prefect_tpu.infra.models.champion import champion as champion
    from prefect_tpu.infra.models.records import Champion as Champion
    from prefect_tpu.infra.sweep.result import SweepResult as SweepResult
    from prefect_tpu.infra.training.agree import agree as agree
    from prefect_tpu.infra.training.barrier import barrier as barrier
    from prefect_tpu.infra.training.batches import batches as batches
    from prefect_tpu.infra.training.checkpoints import checkpoints as checkpoints
    from prefect_tpu.infra.training.fsdp import fsdp as fsdp
    from prefect_tpu.infra.training.global_array import global_array as global_array
    from prefect_tpu.infra.training.info import info as info
    from prefect_tpu.infra.training.join import join as join
    from prefect_tpu.infra.training.keras_checkpoints import keras_checkpoints as keras_checkpoints
    from prefect_tpu.infra.training.mesh import mesh as mesh
    from prefect_tpu.infra.training.printing import leader_print as leader_print
    from prefect_tpu.infra.training.printing import show as show
    from prefect_tpu.infra.training.report import report as report
    from prefect_tpu.infra.training.shard import shard as shard
    from prefect_tpu.infra.training.step import step as step
    from prefect_tpu.infra.training.torch_checkpoints import torch_checkpoints as torch_checkpoints
    from prefect_tpu.infra.training.transformers_trainer import transformers_trainer as transformers_trainer


def __getattr__(name: str) -> object:
    """Load a public name from its home, once."""
    if name not in _HOME:
        raise AttributeError(f"prefect_tpu has no name {name!r}: it offers {', '.join(__all__)}.")
    try:
        value: object = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as exc:  # a host of a job may have only what its program needs
        if not str(exc.name).startswith("prefect_tpu."):
            raise
        value = import_module("prefect_tpu.infra.training.elsewhere").stand_in(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
