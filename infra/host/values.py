"""What travels back of a program: what it returned, or the exception itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect_tpu.infra.contract import ResultInfo
from prefect_tpu.infra.host.lost_peer import chain

LARGEST_VALUE_BYTES = 512 * 2**20
LARGEST_EXCEPTION_BYTES = 2**20  # a convenience: its text is in the record


def keep_value(value: Any, place: Path, largest: int = LARGEST_VALUE_BYTES) -> dict[str, Any]:
    """Write what the program returned; where and how, for its outcome.

    Raises:
        TypeError: neither JSON nor a pickle can carry it.
        ValueError: it is larger than a result may be.
    """
    encoding, raw = encode(value)
    if len(raw) > largest:
        raise ValueError(
            f"the program returned a {type(value).__name__} of {_megabytes(len(raw))}, and a result may have"
            f" {_megabytes(largest)}; save what is large as a checkpoint or a file in prefect_tpu.info().output, and"
            " return numbers or its path"
        )
    return _keep(encoding, raw, place)


def keep_exception(error: BaseException, place: Path, largest: int = LARGEST_EXCEPTION_BYTES) -> dict[str, Any] | None:
    """Write the exception as a pickle; None where it cannot travel, is too large, or is a way of leaving."""
    if not isinstance(error, Exception):
        return None
    for link in chain(error):
        link.__traceback__ = None  # frames hold whatever the program held
    with contextlib.suppress(Exception):
        import cloudpickle

        raw = cloudpickle.dumps(error)
        if len(raw) <= largest and isinstance(cloudpickle.loads(raw), BaseException):
            return _keep("cloudpickle", raw, place)
    return None


def encode(value: Any) -> tuple[str, bytes]:
    """(encoding, bytes): JSON where the value survives the way there and back, else a pickle.

    A float that is no number keeps the name that Python's JSON gives it; strict readers get it as text.
    Raises `TypeError` for what neither can carry.
    """
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        text = json.dumps(value)
        if _same(json.loads(text), value):
            return "json", text.encode()
    try:
        import cloudpickle

        return "cloudpickle", cloudpickle.dumps(value)
    except Exception as exc:
        raise TypeError(
            f"the program returned a {type(value).__name__}, which cannot be sent back ({exc});"
            " return numbers, text, lists, dicts or other picklable values"
        ) from exc


def _same(read: Any, value: Any) -> bool:
    """Equal in type too: a tuple that comes back as a list did not survive."""
    if type(read) is not type(value):
        return False
    if isinstance(value, dict):
        return read.keys() == value.keys() and all(_same(read[key], value[key]) for key in value)
    if isinstance(value, list):
        return len(read) == len(value) and all(map(_same, read, value))
    return bool(read == value) or (isinstance(value, float) and math.isnan(value) and math.isnan(read))


def _keep(encoding: str, raw: bytes, place: Path) -> dict[str, Any]:
    place.write_bytes(raw)
    return asdict(ResultInfo(encoding=encoding, sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw)))


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
