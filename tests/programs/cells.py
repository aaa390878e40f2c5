"""Runs a file in a kernel, as a notebook is run: cell by cell, each begun by a line `# %%`. What they print is ours."""

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_client.manager import start_new_kernel

PATIENCE_SECONDS = 120


def main(path: str) -> int:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=PATIENCE_SECONDS)
    try:
        for cell in Path(path).read_text().split("# %%\n"):
            reply = client.execute_interactive(cell, timeout=PATIENCE_SECONDS, allow_stdin=False)
            if reply["content"]["status"] != "ok":
                return 1
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
