"""What does Orbax need for checkpoints in a bucket? gcsfs, and one server for all its clients."""

from __future__ import annotations

import importlib.util
import os

from prefect_tpu.infra.buckets import EMULATOR
from prefect_tpu.infra.errors import UsageError

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
