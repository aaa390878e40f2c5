"""What ends a sweep in the middle of a turn ends it: trials that never began are not waited for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from prefect_tpu.flows.trials import drive
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.asked import Asked
from prefect_tpu.infra.sweep.driver import SweepDriver


class Full(LocalStorage):
    """A disk on which there is room for the chips of one trial, after the name of the driver."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if name == layout.entry(layout.CHIPS, 2):
            raise PlatformError("The disk is full.")
        return super().put_if_absent(name, data)

    def inside(self, folder: str) -> LocalStorage:
        return Full(self.path(folder))


def test_a_turn_that_is_cut_short_ends_the_sweep(tmp_path: Path) -> None:
    asked = Asked(name="full", program="m:f", space={"x": [1, 2]}, trials=2, chips=2, sampler="grid")
    driver = SweepDriver(Full(tmp_path), asked, lambda text: None)
    lease = Lease(driver.storage, time.monotonic)
    assert lease.take() is None
    with pytest.raises(PlatformError, match="The disk is full"):
        drive(driver, lease, lambda: None)
    assert driver.chips.held() == {0: 1}, "the first trial would have begun"
