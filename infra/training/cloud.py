"""What does Orbax need for checkpoints in a bucket, and what does it raise where the bucket refuses?

It goes there by two clients: gcsfs for its small files, TensorStore for the arrays.
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass

from prefect_tpu.infra.buckets import EMULATOR
from prefect_tpu.infra.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a checkpoint was not written or read: the words for it, and what to do.

    may_pass: the bucket could not be reached or was busy; else it said no.
    """

    said: str
    remedy: str
    may_pass: bool = False


# TensorStore has no types of exceptions: a ValueError begins with one of these words of absl's.
_TENSORSTORE = re.compile(
    r"(UNAVAILABLE|PERMISSION_DENIED|UNAUTHENTICATED|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED): (.*?)( \[|$)", re.S
)
_DENIALS = ("PERMISSION_DENIED", "UNAUTHENTICATED")
_BUSY = (408, 429, 500, 502, 503, 504)
_LIBRARIES = ("gcsfs", "aiohttp", "google")
_SHOWN = 300  # characters
_REMEDY = (
    "Check the network, the bucket, and that this host's service account has the role roles/storage.objectUser on it"
)
TENSORSTORE_SERVER = "TENSORSTORE_GCS_HTTP_URL"  # TensorStore's own variable: it does not know the emulator's


def prepare() -> None:
    """Before Orbax is loaded. Raises `UsageError` where gcsfs is missing."""
    if importlib.util.find_spec("gcsfs") is None:
        raise UsageError(
            "Checkpoints in a bucket need gcsfs, with which Orbax reads and writes there: install it in the image"
            " (pip install gcsfs)."
        )
    if emulator := os.environ.get(EMULATOR):
        os.environ.setdefault(TENSORSTORE_SERVER, emulator if "://" in emulator else f"http://{emulator}")


def refused(exc: BaseException) -> Refused | None:
    """What the bucket or the way to it said; None where the exception comes from neither.

    A plain connection that broke is that of a lost peer.
    """
    said = _said(exc)
    if said is None:
        return None
    return Refused(said=said[:_SHOWN].strip().rstrip("."), remedy=_REMEDY, may_pass=_may_pass(exc))


def _may_pass(exc: BaseException) -> bool:
    if told := _TENSORSTORE.match(str(exc)):
        return told[1] not in _DENIALS
    code = getattr(exc, "code", None)  # of gcsfs: an HTTP status
    return code in _BUSY if isinstance(code, int) else type(exc).__module__.startswith("aiohttp")


def _said(exc: BaseException) -> str | None:
    from_library = type(exc).__module__.partition(".")[0] in _LIBRARIES
    if from_library or (isinstance(exc, OSError) and not isinstance(exc, ConnectionError)):
        return " ".join(str(exc).split()) or type(exc).__name__
    told = _TENSORSTORE.match(str(exc)) if isinstance(exc, ValueError) else None
    return f"{told[1]}: {told[2]}" if told else None
