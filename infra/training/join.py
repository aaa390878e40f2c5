"""How do the hosts of a slice find each other, and is it the slice that was promised?"""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra import addresses, layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import CouldNotJoin, UsageError, WrongSlice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.training import agreement, alike, meeting, pathways
from prefect_tpu.infra.training.context import Context, context
from prefect_tpu.infra.training.progress import progress

# After this long without a sign of life JAX gives a host up and ends the others.
# JAX's 100 s are long for a slice that costs money; a starved machine still makes 60 s.
HEARTBEAT_SECONDS = 60
INITIALIZE_SECONDS = 60  # for JAX itself, when all hosts are known to be there

_JAX_BACKENDS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}
_joined: Context | None = None


def join() -> None:
    """Meet the other hosts of the slice and check what is there; outside a job there is nothing to do.

    Call it first in the program, before anything else uses JAX. Calling it again does nothing.

    Raises:
        CouldNotJoin: the hosts did not find each other in time.
        HostsDiffer: they run other code or versions than each other.
        WrongSlice: other devices or hosts were found than the plan promised.
        UsageError: JAX was used before.
    """
    global _joined
    here = context()
    if here is None or here is _joined:
        return
    if here.is_flow:
        raise UsageError(
            f"prefect_tpu.join() was called in the flow itself, which runs on the leader of {here.plan.hosts} hosts:"
            " call it in a function that prefect_tpu.every_host(function)(...) runs on each of them."
        )
    if here.plan.hosts > 1:
        _initialize(here)
    if here.plan.platform == pathways.PLATFORM:
        pathways.initialize()
    _check_slice(here.plan)
    alike.check_alike()
    agreement.meet("prefect_tpu joined")
    progress().event(Event.JOINED)
    _joined = here


def _initialize(here: Context) -> None:
    import jax

    if jax.distributed.is_initialized():
        return
    plan = here.plan
    meeting.wait_for_hosts(plan.coordinator, _word(plan), here.host, plan.hosts, plan.join_timeout)
    try:
        jax.distributed.initialize(
            coordinator_address=plan.coordinator,
            num_processes=plan.hosts,
            process_id=here.host,
            initialization_timeout=INITIALIZE_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            cluster_detection_method="deactivate",  # else JAX asks the machine, though everything is said
            **_bind(plan.coordinator),
        )
    except jax.errors.JaxRuntimeError as exc:
        raise CouldNotJoin(
            f"Host {here.host} of job {plan.job!r} met the other {plan.hosts - 1} at {plan.coordinator}, but JAX did"
            f" not: {exc}. Look at the logs of the others: one has ended since."
        ) from exc
    except RuntimeError as exc:  # JAX's own answer when it is too late
        raise UsageError(
            f"prefect_tpu.join() came too late on host {here.host}: {exc}"
            " Call it first, before anything else uses JAX (also at import)."
        ) from exc


def _word(plan: HostPlan) -> str:
    """What only hosts of this attempt say, or of this region of it."""
    name = layout.attempt_name(plan.job, plan.attempt)
    return name if plan.region is None else f"{name}/{plan.region}"


def _bind(coordinator: str) -> dict[str, Any]:
    """JAX's coordinator listens where its hosts met."""
    name, _, port = coordinator.rpartition(":")
    loopback = addresses.own_loopback(name)
    return {"coordinator_bind_address": f"{loopback}:{port}"} if loopback else {}


def _knows_slices(plan: HostPlan) -> bool:
    """Only of TPUs JAX knows which of them belong together."""
    return plan.platform == "tpu"


def _expected(plan: HostPlan, devices: int) -> dict[str, object]:
    """What JAX must find, where it finds so many devices in all."""
    if plan.platform == pathways.PLATFORM:
        return pathways.expected(plan, devices)
    return {
        "hosts": plan.hosts,
        "devices of this host": plan.devices_per_host,
        "devices in all": plan.hosts * plan.devices_per_host,
        "platform": _JAX_BACKENDS.get(plan.platform, plan.platform),
        **({"slices": plan.slices} if _knows_slices(plan) else {}),
    }


def _check_slice(plan: HostPlan) -> None:
    import jax

    try:
        found = {
            "hosts": jax.process_count(),
            "devices of this host": jax.local_device_count(),
            "devices in all": jax.device_count(),
            "platform": jax.default_backend(),
            "slices": len({getattr(device, "slice_index", 0) for device in jax.devices()}),
        }
    except RuntimeError as exc:  # JAX's own answer where it has no such platform
        if plan.platform == pathways.PLATFORM and pathways.is_known():
            raise CouldNotJoin(f"JAX does not reach the chips through Pathways: {exc}. {_advice(plan)}") from exc
        raise WrongSlice(
            f"JAX has no {plan.platform} device for {plan.accelerator}: {str(exc).rstrip('.')}."
            f" {_advice(plan, 'libtpu.so' in str(exc))}"
        ) from exc
    wanted = _expected(plan, jax.device_count())
    wrong = [f"{name}: {found[name]} instead of {value}" for name, value in wanted.items() if found[name] != value]
    if wrong:
        raise WrongSlice(f"The slice is not the {plan.accelerator} of the plan: {'; '.join(wrong)}. {_advice(plan)}")


def _advice(plan: HostPlan, has_no_libtpu: bool = False) -> str:
    if has_no_libtpu:
        return "What hosts run has JAX without its part for TPUs: `pip install 'jax[tpu]'` into the image."
    if plan.platform == pathways.PLATFORM:
        return pathways.advice()
    if plan.platform == "cuda":
        return "Look what `prefect-tpu doctor` says of gpus and jax; JAX for CUDA is `pip install 'jax[cuda13]'`."
    return "Check the accelerator's name and what else uses these chips."
