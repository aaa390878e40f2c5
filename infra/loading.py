"""How is a module loaded that takes long, where several threads may want one? By one thread at a time.

Two threads that load Google's and Kubernetes' libraries at once meet in packages that both need, whose modules need
each other: Python then hands out half a module, and what fails by that stays broken as long as the process lives.
"""

from __future__ import annotations

import importlib
import threading
from types import ModuleType

_ONE_AT_A_TIME = threading.RLock()


def load(name: str) -> ModuleType:
    """The module of this name; waits for other threads that load one."""
    with _ONE_AT_A_TIME:
        return importlib.import_module(name)
