"""Which environment does a host's program start with, or its flow, or a region? Pure functions of the plan."""

from __future__ import annotations

import os
from collections.abc import Mapping

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.pathways import PROXY_PORT
from prefect_tpu.infra.plan import HostPlan

# XLA sizes its CPU thread pool by NPROC. With one thread per device, programs in flight starve each other's
# collectives: four processes of four devices hung within 315 steps on two cores, and never with 32 threads.
CPU_THREADS = 32
HOME, TEMPORARY = "home", "tmp"  # folders of a host's own disk

# The orchestrator's own: a program that talks to Prefect must be given a key on purpose. A pod inherits nothing from
# the orchestrator: what it has was put there for it.
_WITHHELD = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING")
_WITHHELD_PREFIXES = ("PREFECT__", "PREFECT_SERVER_")
# Of a flow's hosts only the leader speaks with Prefect. Any of its settings may be a secret, but for these.
_OPEN = ("PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILES_PATH", "PREFECT_LOGGING_LEVEL")
_OF_ONE_PROCESS = (Env.REGION, Env.PARENT)
_SIGTERM_BEHAVIOR = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"

# Who a host is among the others, in the words of libtpu and JAX. GKE puts some of them into pods by itself, and was
# seen to count pods that were still leaving as one more slice, for which the others waited for ever. So ours take their
# place, and what we do not say is not said at all. What it says of the machine (TPU_TOPOLOGY and the like) stays.
_PROCESS_ADDRESSES, _PROCESS_PORT, LIBTPU_PORT = "TPU_PROCESS_ADDRESSES", "TPU_PROCESS_PORT", "8476"
_IDENTITY = (
    *("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", _PROCESS_ADDRESSES, "CLOUD_TPU_TASK_ID"),
    *("MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS"),
    *("JAX_LOCAL_DEVICE_IDS", "JAX_COORDINATOR_BIND_ADDRESS", "JAX_PARTITION_INDEX", "JAX_SLICE_INDEX"),
)
_DROPPED = (*_IDENTITY, *_OF_ONE_PROCESS)


def program_environment(
    plan: HostPlan,
    host: int,
    *,
    inherited: Mapping[str, str],
    own: Mapping[str, str],
    archive: str | None = None,
) -> dict[str, str]:
    """The whole environment, later ones winning: inherited, frameworks, the job's `env`, our own words.

    archive: the file that our code came in, which programs import it from; None where it is installed.
    """
    kept = {key: value for key, value in inherited.items() if not _is_withheld(plan, host, key) and key not in _DROPPED}
    frameworks = {**_devices(plan, inherited), **_rendezvous(plan, host), **_tpu_processes(plan, host, inherited)}
    found = {**kept, **_bare(plan, host, kept), **frameworks, **_said(plan, host), **own, Env.HOST: str(host)}
    return found if archive is None else {**found, "PYTHONPATH": _first(archive, found.get("PYTHONPATH"))}


def flow_environment(plan: HostPlan, inherited: Mapping[str, str], without: str | None = None) -> dict[str, str]:
    """What the command of a flow starts with, of what the leader's agent has.

    A notice leaves its run as it stands, unless its person wants otherwise. Where it is one of several hosts it is none
    of the program's: nothing in it shall wait for the others.

    without: what is left out of the path on which Python finds packages.
    """
    away = {*_rendezvous(plan, 0), *_IDENTITY} - {"PYTHONUNBUFFERED"} if plan.hosts > 1 else set()
    found = {key: value for key, value in inherited.items() if key not in away and key not in _OF_ONE_PROCESS}
    path = [place for place in found.pop("PYTHONPATH", "").split(os.pathsep) if place and place != without]
    found |= {"PYTHONPATH": os.pathsep.join(path)} if path else {}
    return {_SIGTERM_BEHAVIOR: "relinquish", **found}


def _said(plan: HostPlan, host: int) -> dict[str, str]:
    """What the job says itself; of a flow's, what is for Prefect reaches the leader alone."""
    return {key: value for key, value in plan.env.items() if not _is_of_the_leader(plan, host, key)}


def _is_withheld(plan: HostPlan, host: int, key: str) -> bool:
    if _is_of_the_leader(plan, host, key):
        return True
    is_a_flow = plan.program.kind == "flow"
    if key == Env.REGION_KEY:
        return not is_a_flow
    return not is_a_flow and plan.backend == "local" and (key in _WITHHELD or key.startswith(_WITHHELD_PREFIXES))


def _is_of_the_leader(plan: HostPlan, host: int, key: str) -> bool:
    """Of a flow's job: what neither regions nor other hosts are given."""
    if plan.region is None and (plan.program.kind != "flow" or host == 0):
        return False
    return key.startswith("PREFECT_") and not key.startswith("PREFECT_TPU_") and key not in _OPEN


def _first(place: str, others: str | None) -> str:
    return os.pathsep.join([place, others]) if others else place


def _bare(plan: HostPlan, host: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """What a container without an environment lacks; its program may write below its scratch folder, whatever else."""
    if plan.scratch is None:
        return {}
    folder = plan.scratch_folder(host)
    found = {"PATH": os.defpath, "HOME": str(folder / HOME), "TMPDIR": str(folder / TEMPORARY)}
    return {key: value for key, value in found.items() if not inherited.get(key)}


def _devices(plan: HostPlan, inherited: Mapping[str, str]) -> dict[str, str]:
    devices = str(plan.devices_per_host)
    if plan.platform == "tpu":
        return {"JAX_PLATFORMS": "tpu,cpu"}  # else JAX takes the CPU where it finds no chips
    if plan.platform == "proxy":
        return _pathways(plan)
    if plan.platform == "cuda":
        return {"JAX_PLATFORMS": "cuda,cpu", **_gpus(plan, inherited)}
    if plan.platform == "cpu":
        return {
            "JAX_PLATFORMS": "cpu",
            "CUDA_VISIBLE_DEVICES": "",  # no other framework takes a GPU that another job may have
            "ACCELERATE_USE_CPU": "true",  # else each host of an Accelerate program trains for itself
            "JAX_NUM_CPU_DEVICES": devices,
            "TPU_SKIP_MDS_QUERY": "1",
            "NPROC": str(max(CPU_THREADS, 8 * plan.devices_per_host)),
        }
    return {}


def _pathways(plan: HostPlan) -> dict[str, str]:
    """JAX speaks to the proxy beside it, and asks no machine what chips it has: this one has none."""
    is_rehearsed = plan.env.get("JAX_PLATFORMS") == "cpu"  # without the chips: as many devices, of CPUs
    return {
        "JAX_PLATFORMS": "proxy",
        "JAX_BACKEND_TARGET": f"grpc://{plan.addresses[0]}:{PROXY_PORT}",
        "XCLOUD_ENVIRONMENT": "GCP",
        "TPU_SKIP_MDS_QUERY": "true",
        **({"JAX_NUM_CPU_DEVICES": str(plan.devices_per_host), "NPROC": str(CPU_THREADS)} if is_rehearsed else {}),
    }


def _gpus(plan: HostPlan, inherited: Mapping[str, str]) -> dict[str, str]:
    """A pod sees no others than its own, so its plan names none."""
    if not plan.gpus:
        return {}
    # Numbers that were not given to us are nvidia-smi's, in this order; CUDA's own puts the fastest first.
    order = {} if "CUDA_VISIBLE_DEVICES" in inherited else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {"CUDA_VISIBLE_DEVICES": ",".join(plan.gpus), **order}


def _rendezvous(plan: HostPlan, host: int) -> dict[str, str]:
    """Where the hosts meet, in the words of JAX launchers and torch: counted over all slices."""
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
        "PYTHONUNBUFFERED": "1",
    }


def _tpu_processes(plan: HostPlan, host: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """The hosts of this slice and, where there are several, which slice it is, in the words of libtpu."""
    if plan.platform == "proxy":
        return {}  # it is none of a slice
    number, within = divmod(host, plan.hosts_per_slice)
    peers = plan.addresses[number * plan.hosts_per_slice :][: plan.hosts_per_slice]
    found = {"TPU_WORKER_ID": str(within), "TPU_WORKER_HOSTNAMES": ",".join(peers)}
    if _PROCESS_ADDRESSES in inherited:  # some machines' libtpu wants them with ports
        port = inherited.get(_PROCESS_PORT, LIBTPU_PORT)
        found[_PROCESS_ADDRESSES] = ",".join(f"{peer}:{port}" for peer in peers)
    if plan.slices > 1 and plan.platform == "tpu":
        found |= {
            "MEGASCALE_NUM_SLICES": str(plan.slices),
            "MEGASCALE_SLICE_ID": str(number),
            "MEGASCALE_COORDINATOR_ADDRESS": plan.addresses[0],
        }
    return found
