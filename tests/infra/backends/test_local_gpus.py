"""GPUs: jobs side by side never meet on one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.backends.local_gpus import VISIBLE, machine_gpus, share


def test_the_machines_devices_are_counted_and_nothing_else(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert machine_gpus({}, tmp_path) == ("0", "2", "10")


def test_the_environment_s_choice_outranks_the_machine(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert machine_gpus({VISIBLE: "3, GPU-8f2a"}, tmp_path) == ("3", "GPU-8f2a")
    assert machine_gpus({VISIBLE: ""}, tmp_path) == ()


@given(gpus=st.integers(0, 16), slices=st.integers(1, 6))
def test_slices_share_equally_and_without_overlap(gpus: int, slices: int) -> None:
    names = tuple(map(str, range(gpus)))
    shares = [share(names, slices, number) for number in range(slices)]
    assert {len(each) for each in shares} == {gpus // slices}
    assert len({name for each in shares for name in each}) == slices * (gpus // slices)
