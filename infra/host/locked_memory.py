"""May the program lock as much memory as a TPU's driver wants?

The driver talks to the chips through locked memory, of which a container may lock little by default. A pod that is not
privileged has the right to raise that itself.
https://cloud.google.com/kubernetes-engine/docs/how-to/tpus#privileged-mode, read 2026-11-28
"""

from __future__ import annotations

import contextlib
import resource


def allow_locked_memory() -> None:
    """Raise the limit as far as this process may; where it may not, the program tries with what there is."""
    unlimited = resource.RLIM_INFINITY
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for limit in (unlimited, hard):
        with contextlib.suppress(ValueError, OSError):  # without the right only the soft limit can follow the hard one
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
            return
