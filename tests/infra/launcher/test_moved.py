"""A copy of a job's folder goes on by itself; what still runs in the other folder is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import write_json
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.moved import end_moved
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def began(storage: LocalStorage, make_plan: Callable[..., HostPlan]) -> LocalStorage:
    """A job whose attempt 3 is under way and has saved a step."""
    storage.put(layout.plan(3), make_plan(output=storage.url).to_json())
    storage.put(layout.checkpoint_seal(3, 40), write_json({"files": {"a": 1}}))
    return storage


def test_an_attempt_in_its_own_folder_stays_alive_by_whatever_path(began: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(began.root)
    for storage in (began, LocalStorage(tmp_path / "link")):
        end_moved(storage)
        assert history.read_outcome(storage, 3) is None


@pytest.mark.parametrize("bring", [shutil.copytree, shutil.move])
def test_an_attempt_that_began_elsewhere_is_lost_and_its_checkpoint_kept(
    began: LocalStorage, tmp_path: Path, bring: Callable[[Path, Path], object]
) -> None:
    bring(began.root, tmp_path / "new")
    storage = LocalStorage(tmp_path / "new")
    end_moved(storage)
    end_moved(storage)
    outcome = history.read_outcome(storage, 3)
    assert outcome is not None and outcome.failure is not None
    assert (outcome.outcome, outcome.saved_step, outcome.failure.retryable) == ("host_lost", 40, True)
    assert f"came here from {began.url}" in outcome.failure.message
    assert history.read_outcome(began, 3) is None


def test_without_an_attempt_there_is_nothing_to_end(tmp_path: Path) -> None:
    end_moved(LocalStorage(tmp_path / "empty"))
    assert not (tmp_path / "empty").exists()
