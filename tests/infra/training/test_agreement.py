"""What hosts agree on is what the leader said: a number that would arrive as another one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.training import agreement


@pytest.mark.parametrize("value", [1.5, 2.0, "3", None])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        agreement.from_leader((7, value))


def test_alone_a_host_agrees_with_itself() -> None:
    assert agreement.from_leader((True, -1, 3 * 10**9)) == (1, -1, 3 * 10**9)
