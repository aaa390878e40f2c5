"""Which host runs something else is said; places that a compiler writes to may differ."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package

from on_a_board import Words  # noqa: E402

from prefect_tpu.infra.errors import CouldNotJoin  # noqa: E402
from prefect_tpu.infra.training.alike import compare, difference, facts  # noqa: E402


def test_equal_hosts_differ_in_nothing() -> None:
    assert difference({host: facts() for host in range(3)}) == ""


def test_the_host_that_differs_is_named() -> None:
    said = {host: {"the version of jax": "0.12.0"} for host in range(3)} | {1: {"the version of jax": "0.10.2"}}
    assert difference(said) == (
        "Not all hosts run the same program: the version of jax is 0.10.2 on host 1, else 0.12.0"
    )
    assert "JAX_ENABLE_X64 is nothing on host 1, else 1" in difference({0: {"JAX_ENABLE_X64": "1"}, 1: {}})


def test_flags_count_but_for_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_b=1 --xla_dump_to=/tmp/host-3 --xla_a=2")
    found = facts()
    assert found["XLA_FLAGS"] == "--xla_a=2 --xla_b=1" and "the version of jax" in found


def test_a_host_that_is_gone_differs_in_nothing_but_is_missed() -> None:
    words = Words()
    with ThreadPoolExecutor(2) as pool:
        here = [pool.submit(compare, words.of(host, 3), {"Python": "3.11"}, 0.2) for host in (0, 1)]
        for host in here:
            with pytest.raises(CouldNotJoin, match=r"nothing was heard of host 2 for 0\.2 s\. Look at the logs there"):
                host.result()
