"""A sweep is driven by one process at a time: who comes later waits, and who stood still for too long gives way."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.holding import check_ours, holding

PATIENCE = 60.0


def nobody() -> str | None:
    return None


def test_who_comes_later_waits_for_the_first_and_drives_then(tmp_path: Path) -> None:
    storage, waits = LocalStorage(tmp_path), threading.Event()

    def second() -> bool:
        with holding(storage, lambda text: waits.set(), nobody) as lease:
            assert lease is not None
            check_ours(lease)
            return True

    with ThreadPoolExecutor() as pool:
        with holding(storage, lambda text: None, nobody) as lease:
            assert lease is not None
            later = pool.submit(second)
            assert waits.wait(PATIENCE) and not later.done()
            check_ours(lease)
        assert later.result(PATIENCE)
    assert storage.get(layout.LEASE) is None


def test_who_is_to_stop_waits_no_longer(tmp_path: Path) -> None:
    storage, said = LocalStorage(tmp_path), list[str]()
    with holding(storage, said.append, nobody):
        with holding(storage, said.append, lambda: "the run is being cancelled") as second:
            assert second is None
        assert storage.get(layout.LEASE) is not None
    assert len(said) == 1 and said[0].startswith("The sweep is driven by process ")


def test_who_was_followed_by_another_says_so_and_leaves_it_alone(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    with holding(storage, lambda text: None, nobody) as lease:
        assert lease is not None
        other = {**json.loads(storage.get(layout.LEASE) or b""), "token": "another", "host": "elsewhere", "pid": 7}
        storage.put(layout.LEASE, json.dumps(other).encode())
        with pytest.raises(PlatformError, match="driven by process 7 on elsewhere now. Run it again to follow it"):
            check_ours(lease)
    assert json.loads(storage.get(layout.LEASE) or b"")["token"] == "another"
