"""Which devices belong to one slice? JAX knows it of TPUs; elsewhere the plan says how many hosts make one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prefect_tpu.infra.errors import WrongSlice
from prefect_tpu.infra.training import pathways
from prefect_tpu.infra.training.context import context

if TYPE_CHECKING:
    from jax import Device


def by_slice(devices: Sequence[Device]) -> list[list[Device]]:
    """The devices of each slice, in JAX's order; one list where nothing is known of slices.

    On this machine slices are groups of hosts, so a program's mesh means the same there. Devices that Pathways does not
    tell apart are taken in equal parts.

    Raises:
        WrongSlice: the slices are not of equal size.
    """
    numbers = [int(getattr(device, "slice_index", 0)) for device in devices]
    found = _grouped(devices, numbers if _are_told(devices, numbers) else _parts(len(devices)))
    if len({len(group) for group in found}) > 1:
        sizes = ", ".join(str(len(group)) for group in found)
        raise WrongSlice(f"The slices have {sizes} devices, and a mesh needs equal ones: look what became of them.")
    return found


def _are_told(devices: Sequence[Device], numbers: list[int]) -> bool:
    """Of GPUs JAX counts machines as slices, so only TPUs are asked, and Pathways where it tells them apart."""
    here = context()
    is_pathways = here is not None and here.plan.platform == pathways.PLATFORM
    return devices[0].platform == "tpu" and (not is_pathways or len(set(numbers)) > 1)


def _parts(count: int) -> list[int]:
    """The number of each device's slice: JAX orders devices by their hosts, and hosts are counted over all slices."""
    here = context()
    if here is None or here.plan.slices == 1:
        return [0] * count
    each = max(1, here.plan.hosts * here.plan.devices_per_host // here.plan.slices)
    return [place // each for place in range(count)]


def _grouped(devices: Sequence[Device], numbers: list[int]) -> list[list[Device]]:
    groups: dict[int, list[Device]] = {}
    for device, number in zip(devices, numbers, strict=True):
        groups.setdefault(number, []).append(device)
    return [groups[number] for number in sorted(groups)]
