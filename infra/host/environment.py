"""Which environment does a host's program start with? A pure function of its plan."""

from __future__ import annotations

from collections.abc import Mapping

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.plan import HostPlan

# XLA sizes its CPU thread pool by NPROC. With one thread per device, programs in flight starve each other's
# collectives: four processes of four devices hung within 315 steps on two cores, and never with 32 threads.
CPU_THREADS = 32

# The orchestrator's own: a program that talks to Prefect must be given a key on purpose.
_WITHHELD = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING")
_WITHHELD_PREFIXES = ("PREFECT__", "PREFECT_SERVER_")


def program_environment(
    plan: HostPlan, host: int, *, inherited: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment, later ones winning: inherited, frameworks, the job's `env`, our own words."""
    kept = {key: value for key, value in inherited.items() if not _is_withheld(key)}
    return {**kept, **_devices(plan), **_rendezvous(plan, host), **plan.env, **own, Env.HOST: str(host)}


def _is_withheld(key: str) -> bool:
    return key in _WITHHELD or key.startswith(_WITHHELD_PREFIXES)


def _devices(plan: HostPlan) -> dict[str, str]:
    devices = str(plan.devices_per_host)
    if plan.platform == "cuda":
        return {"JAX_PLATFORMS": "cuda,cpu", "CUDA_VISIBLE_DEVICES": ",".join(plan.gpus)}
    if plan.platform == "cpu":
        return {
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": devices,
            "TPU_SKIP_MDS_QUERY": "1",
            "NPROC": str(max(CPU_THREADS, 8 * plan.devices_per_host)),
        }
    return {}


def _rendezvous(plan: HostPlan, host: int) -> dict[str, str]:
    """Where the hosts meet, in the words of JAX launchers, torch and libtpu."""
    address, _, port = plan.coordinator.rpartition(":")
    return {
        "JAX_COORDINATOR_ADDRESS": plan.coordinator,
        "JAX_NUM_PROCESSES": str(plan.hosts),
        "JAX_PROCESS_ID": str(host),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(plan.hosts),
        "RANK": str(host),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(host),
        "TPU_WORKER_ID": str(host),
        "TPU_WORKER_HOSTNAMES": ",".join(plan.addresses),
        "PYTHONUNBUFFERED": "1",
    }
