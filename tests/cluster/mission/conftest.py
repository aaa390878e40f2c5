"""The whole mission: a flow on a real Prefect server trains on slices of a real control plane."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
# Tests are no package; these modules are for this folder.
sys.path += [str(HERE), str(HERE.parent / "chaos"), str(HERE.parents[1] / "prefect")]
