"""What Prefect left of a killed flow goes; what belongs to other runs, or to nobody, stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prefect_tpu.infra.host.prefect_remnants import RUN, clear_away

MINE, OTHER = "ea4204ed-9218-4836-befc-81e7a154ab7d", "0f3b6e1a-9c55-4d1e-8f00-123456789abc"


def left(place: Path, run: str, name: str, code: Path | None = None) -> tuple[Path, Path]:
    """As `prefect flow-run execute` leaves it: its own folder, and that of the flow's code."""
    code, folder = code or place / f"prefect-flow-run-{name}", place / f"prefect-workspace-attempt-{name}"
    code.mkdir(exist_ok=True)
    (code / "flow.py").write_text("")
    folder.mkdir()
    (folder / "workspace.json").write_text('{"environment": {"PREFECT_API_KEY": "pnu_1"}}')
    (folder / "supervisor.json").write_text(json.dumps({"flow_run_id": run, "workspace_root": str(code)}))
    return folder, code


def test_both_folders_of_a_run_go_and_those_of_another_stay(tmp_path: Path) -> None:
    mine, theirs = left(tmp_path, MINE, "1"), left(tmp_path, OTHER, "2")
    (tmp_path / "prefect-workspace-attempt-3").mkdir()
    broken = tmp_path / "prefect-workspace-attempt-4"
    broken.mkdir()
    (broken / "supervisor.json").write_text("[")
    for _ in range(2):  # it may be repeated
        clear_away({RUN: MINE, "TMPDIR": str(tmp_path)})
        assert not any(folder.exists() for folder in mine)
        assert all(folder.exists() for folder in (*theirs, broken))


@pytest.mark.parametrize("environment", [{}, {RUN: ""}])
def test_without_a_run_nothing_goes(tmp_path: Path, environment: dict[str, str]) -> None:
    theirs = left(tmp_path, "", "1")
    clear_away({**environment, "TMPDIR": str(tmp_path)})
    assert all(folder.exists() for folder in theirs)


def test_a_folder_that_prefect_did_not_make_stays(tmp_path: Path) -> None:
    """Whatever the file says."""
    folder, code = left(tmp_path, MINE, "1", tmp_path / "notes")
    clear_away({RUN: MINE, "TMPDIR": str(tmp_path)})
    assert not folder.exists() and code.exists()
