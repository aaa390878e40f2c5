"""Several threads may prepare jobs at once; CPython 3.11 refuses source now and then that two of them read."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prefect_tpu.infra.own_code import parse

READERS = 8


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can, also while a tree is made: garbage is looked for, which runs Python."""
    before = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50, 1_000_000, 1_000_000)
    gc.callbacks.append(_look)
    yield
    gc.callbacks.remove(_look)
    gc.set_threshold(*before[1])
    sys.setswitchinterval(before[0])


def _look(phase: str, info: dict[str, int]) -> None:
    sum(range(100))


def test_source_is_read_by_many_threads_at_once(restless: None, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("def main(a=[1, (2, {3: [4]})]):\n    return [[(a, [b for b in a])]]\n" * 200)
    with ThreadPoolExecutor(READERS) as pool:
        trees = list(pool.map(lambda _: parse(path), range(READERS * 4)))
    assert {len(tree.body) for tree in trees} == {200}
