"""A program that ignores every notice and hides a child in a session of its own."""

from __future__ import annotations

import signal
import subprocess
import time


def main() -> None:
    """Never returns."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    while True:
        time.sleep(1)
