"""`python -m prefect_tpu.infra.launcher.bundle`: how does a flow that is sent as an object get into the output?

Prefect writes it to a file and runs this beside it, once for the flow and once for the archive of its files.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.places import job_output
from prefect_tpu.infra.storage import open_storage

FAILED = 1


def main(words: Sequence[str]) -> int:
    """Put the file into the output under its key. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m prefect_tpu.infra.launcher.bundle")
    parser.add_argument("--output", default="", help="the folder of all jobs; empty: this machine's usual one")
    parser.add_argument("--key", required=True)
    parser.add_argument("file", type=Path)
    said = parser.parse_args(words)
    try:
        open_storage(said.output or job_output(os.environ)).put_file(layout.bundle(said.key), said.file)
    except PrefectTpuError as exc:
        sys.stderr.write(f"{exc}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
