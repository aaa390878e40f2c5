"""The pages of the reference are what the code says now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_generated_pages_are_what_the_code_says(repository: Path) -> None:
    command = [sys.executable, repository / "docs/generator", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
