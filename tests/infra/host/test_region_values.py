"""What of a region's end goes to the leader, which has it in memory for all hosts at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra.contract import Scratch
from prefect_tpu.infra.host.region import _body


@pytest.mark.parametrize(
    ("outcome", "is_value_wanted", "sent"),
    [
        ({"result": {}}, True, b"value"),
        ({"result": {}}, False, b""),
        ({"exception": {}}, False, b"error"),
        ({"exception": {}}, True, b"error"),
        ({}, True, b""),
    ],
)
def test_a_value_that_the_flow_does_not_get_stays_on_its_host(
    tmp_path: Path, outcome: dict[str, object], is_value_wanted: bool, sent: bytes
) -> None:
    (tmp_path / Scratch.VALUE).write_bytes(b"value")
    (tmp_path / Scratch.EXCEPTION).write_bytes(b"error")
    assert _body(tmp_path, outcome, is_value_wanted) == sent
