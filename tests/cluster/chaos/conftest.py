"""Missions whose drivers die at any moment, on ways on which everything may go wrong."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # tests are no package; these modules are for this folder
sys.path.append(str(Path(__file__).parents[2] / "programs"))
