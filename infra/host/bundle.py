"""`python -m prefect_tpu.infra.host.bundle`: runs a flow that was sent as an object, in this process's place.

What knows Prefect is Prefect's own runner of bundles, started at the end: here only files are fetched. So the image
needs Prefect, which a flow needs anyway, and nothing of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ExitCode
from prefect_tpu.infra.errors import PlatformError, PrefectTpuError
from prefect_tpu.infra.places import job_output
from prefect_tpu.infra.storage import Storage, open_on_host

HERE = Path(".bundle")  # in the program's own working folder
_RUN = ("-m", "prefect.bundles.execute", "--key")


def main(words: Sequence[str]) -> None:
    """Fetch the bundle, then become what runs it."""
    parser = argparse.ArgumentParser(prog="python -m prefect_tpu.infra.host.bundle")
    parser.add_argument("--output", default="", help="the folder of all jobs; empty: this machine's usual one")
    parser.add_argument("--key", required=True)
    said = parser.parse_args(words)
    try:
        file = fetch(open_on_host(said.output or job_output(os.environ)), said.key, HERE)
    except PrefectTpuError as exc:
        sys.stderr.write(f"{exc}\n")
        sys.exit(ExitCode.PAYLOAD_REFUSED)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *_RUN, str(file)])


def fetch(storage: Storage, key: str, folder: Path) -> Path:
    """Lay a bundle and the archive of its files down as Prefect looks for them. Returns the bundle's file.

    Raises `PlatformError` where either is missing.
    """
    file = _fetched(storage, key, folder)
    archive = json.loads(file.read_bytes()).get("files_key")
    if archive:
        _fetched(storage, archive, folder)
    return file


def _fetched(storage: Storage, key: str, folder: Path) -> Path:
    file, name = folder / key, layout.bundle(key)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not storage.get_file(name, file):
        raise PlatformError(
            f"The flow that was sent as {storage.where(name)} is not there: this host sees another folder than whoever"
            " sent it, or it was deleted. Give the work pool an output that both reach, and submit the flow again."
        )
    return file


if __name__ == "__main__":
    main(sys.argv[1:])
