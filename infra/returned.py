"""What came back of a host's program: its value, or the exception itself, from the bytes that the host wrote."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from prefect_tpu.infra.contract import ResultInfo


def is_whole(raw: bytes, info: ResultInfo) -> bool:
    """Whether it is what the host wrote."""
    return hashlib.sha256(raw).hexdigest() == info.sha256


def value(raw: bytes, info: ResultInfo) -> Any:
    """Unpickles what the caller's own function returned."""
    if info.encoding == "json":
        return json.loads(raw)
    import cloudpickle

    return cloudpickle.loads(raw)


def number(value: object) -> float | None:
    """Also one of NumPy or JAX; None of what is none, such as text that reads like one."""
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # an array of several, a number beyond all floats
        return None


def exception(raw: bytes, note: str) -> Exception | None:
    """What a sent function raised, with a note; None where it cannot be unpickled here, or is no error."""
    import cloudpickle

    try:
        found = cloudpickle.loads(raw)
    except Exception:  # its class may be at home on the host only: the traceback tells all there is
        return None
    if not isinstance(found, Exception):
        return None
    found.add_note(note)
    return found
