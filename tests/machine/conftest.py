"""What this tier shares with others: the Prefect server of theirs."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "prefect"))  # tests are no package
