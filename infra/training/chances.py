"""With which chances does a program go on? The generators of Python and NumPy, as JSON."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any


def taken() -> dict[str, Any]:
    """Where they are. NumPy's only where the program has loaded NumPy."""
    version, words, gauss = random.getstate()
    found: dict[str, Any] = {"python": [version, list(words), gauss]}
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state(legacy=True)
        found["numpy"] = [name, keys.tolist(), *rest]
    return found


def put_back(found: Mapping[str, Any]) -> None:
    """Let them draw again what they drew after `taken` was asked."""
    version, words, gauss = found["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in found:
        import numpy as np

        name, keys, *rest = found["numpy"]
        np.random.set_state((name, np.asarray(keys, np.uint32), *rest))
