"""What this tier shares with others: the Prefect server of theirs, and its pools."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "prefect")]  # tests are no package
