"""What of this machine its slices need is looked at, and told in numbers."""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.infra.backends import local_checks
from prefect_tpu.infra.backends.local_slices import LocalSlices
from prefect_tpu.infra.checks import Verdict
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.places import data_folder


def test_slices_are_counted_and_their_owners_named(tmp_path: Path) -> None:
    environment = {"XDG_DATA_HOME": str(tmp_path), Env.SLICES: "2"}
    assert local_checks.slices(environment).found == "2 lent, 2 free"
    lent = LocalSlices(data_folder(environment) / "slices", 2)
    first, second = lent.take("digits"), lent.take("mnist")
    assert not isinstance(first, str) and not isinstance(second, str)
    assert local_checks.slices(environment).found == "2 lent, 0 free, taken by job 'digits', job 'mnist'"
    lent.give_back(first)
    assert local_checks.slices(environment).verdict is Verdict.OK
    again = lent.take("third")
    assert not isinstance(again, str), "looking takes nothing"
    lent.give_back(again)
    lent.give_back(second)


def test_the_disk_is_that_of_an_output_which_is_still_to_be_made(tmp_path: Path) -> None:
    found = local_checks.disk(str(tmp_path / "new/jobs"))
    assert found.name == "disk" and f"free below {tmp_path}/new/jobs" in found.found
    assert list(tmp_path.iterdir()) == []
