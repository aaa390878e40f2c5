"""Heavy modules wanted by several threads at once: one is loaded after the other, and each as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra import loading

# While it is loaded, a module waits for the other one to be on its way too; they must never meet.
MODULE = """
import threading
try:
    threading.prefect_tpu_gate.wait(0.5)
    has_met = True
except threading.BrokenBarrierError:
    has_met = False
"""


@pytest.fixture
def met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], object]], list[bool]]:
    """Loads two modules in two threads; whether each was on its way while the other one was."""
    names = [f"{tmp_path.name.replace('-', '_')}_{word}" for word in ("one", "two")]
    for name in names:
        (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(threading, "prefect_tpu_gate", threading.Barrier(2), raising=False)

    def run(load: Callable[[str], object]) -> list[bool]:
        threads = [threading.Thread(target=load, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [bool(loading.load(name).has_met) for name in names]

    return run


def test_python_alone_loads_both_at_once(met: Callable[[Callable[[str], object]], list[bool]]) -> None:
    assert met(__import__) == [True, True]


def test_one_is_loaded_after_the_other(met: Callable[[Callable[[str], object]], list[bool]]) -> None:
    assert met(loading.load) == [False, False]
