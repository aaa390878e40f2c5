"""What takes minutes says what it is at."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_setting_up_names_its_stages(tmp_path: Path) -> None:
    words = ("make", "--dry-run", "setup", f"VENV={tmp_path / 'venv'}")
    recipe = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    expected = ("1 of 3  environment", " -m venv ", "2 of 3  packages", "pip install", "3 of 3  check", "tpu version")
    places = [recipe.find(part) for part in expected]
    assert -1 not in places and places == sorted(places), recipe
