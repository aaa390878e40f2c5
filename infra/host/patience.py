"""How long is something tried that storage refuses?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from prefect_tpu.infra.errors import PlatformError

LAST_SECONDS = 120.0  # at a program's usual end: its value is worth the wait
ERRAND_SECONDS = 2.0  # for what is under way when the program ends, however little time is left
WRITING_SECONDS = 4.0  # after the grace of a notice: Kubernetes allows 5 s until it kills
SHORTEST_PAUSE, LONGEST_PAUSE = 0.25, 2.0

T = TypeVar("T")


def insist(act: Callable[[], T], left: Callable[[], float], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The first answer of `act`, which may be repeated; what refused it is raised where no time is left.

    left: how many seconds are; a notice that comes meanwhile may make them fewer.
    """
    pause = SHORTEST_PAUSE
    while True:
        try:
            return act()
        except PlatformError:
            if left() <= pause:
                raise
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
