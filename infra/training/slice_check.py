"""Is it the slice that was promised? What JAX finds, beside the plan, and beside what the other hosts have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import CouldNotJoin, WrongSlice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.training import device_kinds, pathways

_MOST_SHOWN = 8  # hosts or devices in a message: a slice has thousands
_JAX_BACKENDS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One device, as every host sees it."""

    host: int
    kind: str


def check_slice(plan: HostPlan) -> None:
    """Raise `WrongSlice` where other devices or hosts are there than the plan promised, with both numbers."""
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
    kind = check_one_kind(_seen())
    if plan.platform == "tpu":
        device_kinds.check(plan.accelerator, kind)


def check_hosts(hosts: int, host: int) -> None:
    """Of hosts that nobody planned: raise `WrongSlice` where they are others than was said, or no equals."""
    import jax

    found = (jax.process_count(), jax.process_index())
    if found != (hosts, host):
        raise WrongSlice(
            f"JAX counts {found[0]} hosts and this one as {found[1]}, instead of {hosts} and {host}: let"
            " prefect_tpu.join() be what joins them, or unset what says otherwise."
        )
    seen = _seen()
    check_one_kind(seen)
    check_equal_counts(seen)


def found_here() -> str:
    """What this host has, as a line of its log: whoever asks why a slice is slow or wrong begins there."""
    import jax

    mine = [str(device) for device in jax.local_devices()]
    more = f" and {len(mine) - _MOST_SHOWN} more" if len(mine) > _MOST_SHOWN else ""
    return (
        f"host {jax.process_index()} of {jax.process_count()} has {len(mine)} of {jax.device_count()} devices"
        f" ({jax.local_devices()[0].device_kind}): {', '.join(mine[:_MOST_SHOWN])}{more}"
    )


def check_one_kind(seen: Iterable[Seen]) -> str:
    """The kind that all devices are of. Raises `WrongSlice` where hosts have different ones, naming both."""
    hosts: dict[str, set[int]] = {}
    for device in seen:
        hosts.setdefault(device.kind, set()).add(device.host)
    if len(hosts) > 1:
        said = ", ".join(f"{kind!r} on host{_listed(where)}" for kind, where in sorted(hosts.items()))
        raise WrongSlice(
            f"The devices are of {len(hosts)} kinds: {said}. A program runs on one kind: leave the others out."
        )
    return next(iter(hosts))


def check_equal_counts(seen: Iterable[Seen]) -> None:
    """Raise `WrongSlice` where hosts have different numbers of devices, naming them."""
    counts: dict[int, int] = {}
    for device in seen:
        counts[device.host] = counts.get(device.host, 0) + 1
    by_count: dict[int, set[int]] = {}
    for host, count in counts.items():
        by_count.setdefault(count, set()).add(host)
    if len(by_count) > 1:
        said = ", ".join(f"{count} on host{_listed(where)}" for count, where in sorted(by_count.items()))
        raise WrongSlice(f"Hosts have different numbers of devices: {said}. Give each host as many.")


def _seen() -> list[Seen]:
    import jax

    return [Seen(host=device.process_index, kind=device.device_kind) for device in jax.devices()]


def _listed(hosts: set[int]) -> str:
    shown = ", ".join(map(str, sorted(hosts)[:_MOST_SHOWN]))
    more = f" and {len(hosts) - _MOST_SHOWN} more" if len(hosts) > _MOST_SHOWN else ""
    return f"{'s' if len(hosts) > 1 else ''} {shown}{more}"


def _expected(plan: HostPlan, devices: int) -> dict[str, Any]:
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


def _knows_slices(plan: HostPlan) -> bool:
    """Only of TPUs JAX knows which of them belong together."""
    return plan.platform == "tpu"


def _advice(plan: HostPlan, has_no_libtpu: bool = False) -> str:
    if has_no_libtpu:
        return "What hosts run has JAX without its part for TPUs: `pip install 'jax[tpu]'` into the image."
    if plan.platform == pathways.PLATFORM:
        return pathways.advice()
    if plan.platform == "cuda":
        return "Look what `prefect-tpu doctor` says of gpus and jax; JAX for CUDA is `pip install 'jax[cuda13]'`."
    return "Check the accelerator's name and what else uses these chips."
