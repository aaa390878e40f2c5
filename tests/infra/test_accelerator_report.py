"""How accelerators are shown: the keys scripts rely on, the table for people, and the reference page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prefect_tpu.infra.accelerator_report import markdown, render, rows
from prefect_tpu.infra.accelerators import curated_names
from prefect_tpu.infra.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "accelerators.md"


def test_a_row_has_these_keys_in_this_order() -> None:
    (row,) = rows(["v5p-32"])
    assert json.dumps(row) == json.dumps(
        {
            "name": "v5p-32",
            "generation": "v5p",
            "topology": "2x2x4",
            "machine_type": "ct5p-hightpu-4t",
            "chips": 16,
            "hosts": 4,
            "chips_per_host": 4,
            "jax_devices": 16,
            "gke_accelerator": "tpu-v5p-slice",
            "notes": "",
        }
    )


def test_a_row_is_called_what_was_asked_for() -> None:
    (row,) = rows([" TPU-v5p-16:spot "], "chips")
    assert (row["name"], row["chips"], row["notes"]) == ("TPU-v5p-16:spot", 16, "the same as v5p-32")


def test_one_name_is_shown_as_a_sheet() -> None:
    sheet = render(rows(["v5p-32"])).splitlines()
    assert sheet[0] == "name             v5p-32"
    assert "topology         2x2x4" in sheet
    assert "hosts            4" in sheet


def test_several_names_are_shown_as_an_aligned_table() -> None:
    header, *lines = render(rows(["v5p-32", "h100x8"])).splitlines()
    column = header.index("machine type")
    assert [line[column:].split()[0] for line in lines] == ["ct5p-hightpu-4t", "a3-highgpu-8g"]


@pytest.mark.parametrize("dialect", ["google", "chips"])
def test_everything_that_is_listed_can_be_shown(dialect: str) -> None:
    names = curated_names(dialect)
    assert [row["name"] for row in rows(names, dialect)] == list(names)


def test_a_wrong_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'v5p-24'"):
        rows(["v5p-32", "v5p-24"])


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "write it again: python -m prefect_tpu.infra.accelerator_report"
