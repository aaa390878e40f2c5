"""How do the hosts of a slice find each other? By the plan; outside a job by what another launcher says."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from prefect_tpu.infra import addresses, layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import CouldNotJoin, UsageError, WrongSlice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.training import agreement, alike, bare, by_framework, meeting, pathways, slice_check
from prefect_tpu.infra.training.bare import Peers
from prefect_tpu.infra.training.board import hear, open_board
from prefect_tpu.infra.training.context import Context, context
from prefect_tpu.infra.training.progress import progress
from prefect_tpu.infra.training.report import expect_reports

# After this long without a sign of life JAX gives a host up and ends the others.
# JAX's 100 s are long for a slice that costs money; a starved machine still makes 60 s.
HEARTBEAT_SECONDS = 60
INITIALIZE_SECONDS = 60  # for JAX itself, when all hosts are known to be there
REFUSED_SECONDS = 10.0  # that the leader of a wrong slice waits at most until all know
BARE_SECONDS = 300.0  # outside a job: JAX's own patience, as nobody has said another one
_BARE_ADVICE = meeting.Advice(
    missing="or start them within that time",
    taken="Only one process may say that it is the first; where only one does, give another port to all of them"
    f" ({', '.join(bare.PORTS)}).",
)
_TOO_LATE = "must be called before"  # where JAX finds the others itself, that is its only word for it

_joined: Context | Peers | None = None
_joined_by: int | None = None  # the process that did: a fork of it has its memory, and none of its threads
_joining = threading.Lock()  # a notebook or a server may call from several threads


def join(framework: str = "jax") -> None:
    """Meet the other hosts of the slice and check what is there. Call it first, before anything else uses JAX.

    Each host writes one line into its log: which it is, and its devices. Calling it again does nothing.

    Outside a job the hosts are those of which the environment tells: what torchrun or Kubeflow set (`RANK`,
    `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`; `JAX_PROCESS_ID`, `JAX_NUM_PROCESSES`, `JAX_COORDINATOR_ADDRESS`;
    `PROCESS_ID`, `NUM_PROCESSES`, `COORDINATOR_ADDRESS`, `COORDINATOR_PORT`), or GKE on machines with TPUs. Where it
    tells of none there is nothing to do.

    Args:
        framework: "jax", or "torch": that makes PyTorch's process group, over NCCL where hosts have GPUs, else gloo,
            and a group of one outside a job; JAX is not loaded then.

    Raises:
        CouldNotJoin: the hosts did not find each other in time.
        HostsDiffer: hosts run other code or versions than each other; over JAX.
        WrongSlice: other devices or hosts were found than the plan promised, or hosts with different devices.
        UsageError: JAX was used before, variables of another launcher are missing or contradict each other, no host can
            meet over such a framework, or this is a fork of a process that has joined.
    """
    here = context()
    if here is not None and here.is_flow:
        raise UsageError(
            f"prefect_tpu.join() was called in the flow itself, which runs on the leader of {here.plan.hosts} hosts:"
            " call it in a function that prefect_tpu.every_host(function)(...) runs on each of them."
        )
    with _joining:
        _check_no_fork()
        if framework == "jax":
            _join(here)
        else:
            by_framework.join(framework)
        _note(framework)
    expect_reports()


def _check_no_fork() -> None:
    if _joined_by not in (None, os.getpid()):
        raise UsageError(
            f"prefect_tpu.join() was called in process {os.getpid()}, which was forked from {_joined_by} after that one"
            " had joined: it is none of the hosts, and what it inherits of JAX or PyTorch hangs. Start processes with"
            " multiprocessing's 'spawn', or before join()."
        )


def _note(framework: str) -> None:
    """Alone outside a job there was nothing to join over JAX, and a fork may have others to meet."""
    global _joined_by
    if framework != "jax" or _joined is not None:
        _joined_by = os.getpid()


def _join(here: Context | None) -> None:
    global _joined
    if here is not None and here is not _joined:
        _join_job(here.plan, here.host)
        _joined = here
    if here is None and not isinstance(_joined, Peers):
        _joined = _join_bare()


def _join_job(plan: HostPlan, host: int) -> None:
    if plan.hosts > 1 and not _is_initialized():
        meeting.wait_for_hosts(plan.coordinator, _word(plan), host, plan.hosts, plan.join_timeout)
        _initialize(plan.coordinator, host, plan.hosts, f"job {plan.job!r}")
    if plan.platform == pathways.PLATFORM:
        pathways.initialize()
    slice_check.check_slice(plan)
    alike.check_alike()
    _meet()
    progress().event(Event.JOINED)


def _join_bare() -> Peers | None:
    """The processes that were met; None where this one is alone and has nothing to meet."""
    if pathways.PLATFORM in os.environ.get("JAX_PLATFORMS", "").split(","):
        pathways.initialize()
        return Peers(host=0, hosts=1, coordinator=None, said=("JAX_PLATFORMS",))
    peers = bare.peers()
    if peers is None:
        return None
    if not _is_initialized():
        _meet_bare(peers)
    try:
        slice_check.check_hosts(peers.hosts, peers.host)
    except WrongSlice:
        _let_all_find_it()
        raise
    alike.check_alike()
    _meet()
    return peers


def _let_all_find_it() -> None:
    """A leader that ends takes JAX's coordinator along, and with it the reason from hosts that are still looking."""
    told = open_board()
    if told is not None:
        hear(told, "wrong-slice", REFUSED_SECONDS)


def _meet() -> None:
    """All have found what they should."""
    agreement.meet("prefect_tpu joined")
    sys.stderr.write(f"prefect-tpu: {slice_check.found_here()}\n")


def _meet_bare(peers: Peers) -> None:
    if peers.coordinator is None:
        _let_jax_detect(peers)
        return
    word = f"the run {peers.run} of {peers.hosts} processes" if peers.run else f"the run of {peers.hosts} processes"
    meeting.wait_for_hosts(peers.coordinator, word, peers.host, peers.hosts, BARE_SECONDS, _BARE_ADVICE)
    _initialize(peers.coordinator, peers.host, peers.hosts, word, peers.device)


def _is_initialized() -> bool:
    import jax

    return jax.distributed.is_initialized()


def _initialize(coordinator: str, host: int, hosts: int, whose: str, device: int | None = None) -> None:
    import jax

    try:
        jax.distributed.initialize(
            coordinator_address=coordinator,
            num_processes=hosts,
            process_id=host,
            local_device_ids=device,
            initialization_timeout=INITIALIZE_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            cluster_detection_method="deactivate",  # else JAX asks the machine, though everything is said
            **_bind(coordinator),
        )
    except jax.errors.JaxRuntimeError as exc:
        raise CouldNotJoin(
            f"Host {host} of {whose} met the other {hosts - 1} at {coordinator}, but JAX did not: {exc}. Look at the"
            " logs of the others: one has ended since."
        ) from exc
    except RuntimeError as exc:  # JAX's own answer when it is too late
        raise _too_late(host, exc) from exc


def _let_jax_detect(peers: Peers) -> None:
    """On GKE's machines with TPUs JAX reads the same words, and what its own runtime adds to them."""
    import jax

    try:
        jax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT_SECONDS)
    except (RuntimeError, ValueError) as exc:
        if _TOO_LATE in str(exc):
            raise _too_late(peers.host, exc) from exc
        raise CouldNotJoin(
            f"JAX does not find the others of host {peers.place}: {str(exc).rstrip('.')}. Where this one shall run on"
            f" a single host, unset {peers.said[0]}."
        ) from exc


def _too_late(host: int, exc: RuntimeError | ValueError) -> UsageError:
    return UsageError(
        f"prefect_tpu.join() came too late on host {host}: {exc}"
        " Call it first, before anything else uses JAX (also at import)."
    )


def _word(plan: HostPlan) -> str:
    """What only hosts of this attempt say, or of this region of it."""
    name = layout.attempt_name(plan.job, plan.attempt)
    return name if plan.region is None else f"{name}/{plan.region}"


def _bind(coordinator: str) -> dict[str, Any]:
    """JAX's coordinator listens where its hosts met."""
    name, _, port = coordinator.rpartition(":")
    loopback = addresses.own_loopback(name)
    return {"coordinator_bind_address": f"{loopback}:{port}"} if loopback else {}
