"""A saver that is killed at any of its writes leaves the old step or the new one, whole, and the next one goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slices, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("killed_program.py")
STRIDE = 2  # of the writes, at so many a saver is killed at one


def named(write: str) -> str:
    """Without the name of a temporary file, which is another one each time."""
    return " ".join(word for word in write.split() if not word.startswith(".tmp"))


def test_a_save_that_is_killed_is_done_or_was_never_begun(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    done = subprocess.run(
        [sys.executable, PROGRAM, folder, str(STRIDE)], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    writes, found = result["writes"], result["found"]
    assert {"os.link run.json", "os.link 2.sealed.json"} <= {named(write) for write in writes} and len(writes) > 40
    assert len(found) >= len(writes) // STRIDE
    for each in found:
        assert each["killed by"] == 9, each
        assert each["start"] - each["before"] in (1, 2), each
        assert each["values"] == [each["start"] - 1] and each["metrics"] == {"loss": each["start"] - 1}, each
    has_new = [each["start"] - each["before"] == 2 for each in found]
    assert has_new == sorted(has_new) and {*has_new} == {False, True}, "one write decides, which is the seal's"
    assert not list(folder.glob("*/*.orbax-checkpoint-tmp")), "what was torn is gone"
