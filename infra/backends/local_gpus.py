"""Which GPUs of this machine does a slice have?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
_DEVICE = re.compile(r"nvidia(\d+)")


def machine_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[str, ...]:
    """Names as `CUDA_VISIBLE_DEVICES` takes them: those of this environment where it names some, else all there are."""
    if VISIBLE in environment:
        return tuple(name.strip() for name in environment[VISIBLE].split(",") if name.strip())
    found = (_DEVICE.fullmatch(path.name) for path in devices.glob("nvidia*"))
    return tuple(str(number) for number in sorted(int(match[1]) for match in found if match))


def share(gpus: tuple[str, ...], slices: int, number: int) -> tuple[str, ...]:
    """The GPUs of slice `number`: every slice has equally many and no two have one in common."""
    each = len(gpus) // slices
    return gpus[number * each : (number + 1) * each]
