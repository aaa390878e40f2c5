"""How long is `90s`, `10m` or `1h30m`, and how is a duration written for people?"""

from __future__ import annotations

import math
import re

from prefect_tpu.infra.errors import UsageError

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
NEVER = ("none", "never", "off")


def seconds(text: str, option: str) -> float:
    """Read seconds, or numbers with units in falling order. Raises `UsageError` that names the option."""
    text = text.strip().lower()
    try:
        found = float(text)
    except ValueError:
        match = _PARTS.fullmatch(text)
        parts = zip(match.groups(), _UNITS.values(), strict=True) if match and text else ()
        found = sum((float(number) * unit for number, unit in parts if number), start=0.0)
    if not 0 < found < math.inf:
        raise UsageError(f"{option} {text!r} is no duration above 0: write seconds, or 90s, 10m, 2h, 1h30m.")
    return found


def seconds_or_never(text: str, option: str) -> float | None:
    """The same; None where it is switched off."""
    return None if text.strip().lower() in NEVER else seconds(text, option)


def written(duration: float) -> str:
    """Two units at most, as people read ages: `41s`, `5m12s`, `3h10m`, `10m`."""
    rest, parts = max(0, int(duration)), []
    for name, size in _UNITS.items():
        count, rest = divmod(rest, int(size))
        parts.append((count, name))
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [parts[first], *(part for part in parts[first + 1 : first + 2] if part[0])]
    return "".join(f"{count}{name}" for count, name in shown)


def clock(duration: float) -> str:
    """Minutes and seconds, with hours where there are some: `4:05`, `1:04:05`."""
    minutes, rest = divmod(max(0, int(duration)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
