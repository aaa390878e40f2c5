"""Whether a job is driven: at once of this machine's drivers, and by its renewals of one elsewhere."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.driven import is_driven
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.storage import LocalStorage


def renewed_elsewhere(storage: LocalStorage, renewals: int) -> None:
    data = {"token": "theirs", "host": "another-machine", "pid": 1, "born": 0.0, "renewals": renewals}
    storage.put(layout.LEASE, json.dumps(data).encode())


def test_nobody_drives_until_somebody_has_the_lease(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert not is_driven(storage)
    assert Lease(storage, time.monotonic).take() is None
    assert is_driven(storage)


def test_a_driver_elsewhere_is_believed_once_it_renews(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    renewed_elsewhere(storage, 1)
    is_over = threading.Event()

    def renew() -> None:
        renewals = 1
        while not is_over.wait(0.05):
            renewals += 1
            renewed_elsewhere(storage, renewals)

    other = threading.Thread(target=renew)
    other.start()
    try:
        assert is_driven(storage)
    finally:
        is_over.set()
        other.join()
