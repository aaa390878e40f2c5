"""Who drives a sweep? One process at a time, by the same lease as a job's.

Two for a moment do no harm: what matters is written create-only, and of two that want the same chips one gets them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prefect_tpu.infra.errors import PlatformError, PrefectTpuError
from prefect_tpu.infra.launcher.lease import RENEW_SECONDS, Lease
from prefect_tpu.infra.launcher.status import pause_between_looks
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5


@contextmanager
def holding(
    storage: Storage, tell: Callable[[str], None], wishes_to_stop: Callable[[], str | None]
) -> Iterator[Lease | None]:
    """While it is entered this process drives the sweep whose folder this is; it waits for whoever does.

    None where it was not to wait any longer.
    """
    lease = Lease(storage, time.monotonic)
    if not _wait(lease, tell, wishes_to_stop, pause_between_looks(storage, LOOK_SECONDS)):
        yield None
        return
    is_over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(lease, is_over), name="lease of the sweep", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        is_over.set()
        renewing.join()
        lease.give_up()


def check_ours(lease: Lease) -> None:
    """Raise `PlatformError` where another process drives the sweep now, as this one stood still for too long."""
    if (successor := lease.successor()) is not None:
        raise PlatformError(f"The sweep is driven by {successor} now. Run it again to follow it.")


def _wait(lease: Lease, tell: Callable[[str], None], wishes: Callable[[], str | None], pause: float) -> bool:
    """Whether the lease is ours; not where somebody wants this process to stop before."""
    told = False
    while (holder := lease.take()) is not None:
        if not told:
            tell(f"The sweep is driven by {holder}; waiting for it.")
            told = True
        if wishes() is not None:
            return False
        time.sleep(pause)
    return True


def _renew(lease: Lease, is_over: threading.Event) -> None:
    while not is_over.wait(RENEW_SECONDS):
        try:
            if lease.successor() is not None:
                return
            lease.renew()
        except (PrefectTpuError, OSError) as exc:
            log.warning("The lease of the sweep could not be renewed: %s", exc)
