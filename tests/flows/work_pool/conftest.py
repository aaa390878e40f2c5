"""What these tests share is beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # tests are no package; `asked_runs` is for this folder
