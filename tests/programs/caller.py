"""A script that submits a job and then does nothing more: `NAME COUNTER NOTE`. Its streams may be closed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import prefect_tpu

if __name__ == "__main__":
    name, counter, note = sys.argv[1:]
    job = prefect_tpu.submit(counter, "cpu-2x1", name=name, params={"steps": 10, "hold_at": 5})
    Path(note).write_text(repr(job))
    signal.pause()
