"""A program on a TPU may lock as much memory as its process can be allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ASK = """
import resource
from prefect_tpu.infra.host.locked_memory import allow_locked_memory
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 65536))
allow_locked_memory()
print(*resource.getrlimit(resource.RLIMIT_MEMLOCK))
"""
SYS_RESOURCE = 24  # the bit of the right that pods on TPUs are given


def may_raise() -> bool:
    rights = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    return bool(int(rights, 16) >> SYS_RESOURCE & 1)


def test_there_is_no_limit_with_the_right_and_without_it_all_that_is_allowed() -> None:
    ended = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == ("-1 -1" if may_raise() else "65536 65536"), ended.stderr
