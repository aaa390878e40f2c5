"""The pages tell the truth: links lead somewhere, verbs and scripts they name exist."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", ".check", ".git", ".cache", ".pytest_cache", "node_modules"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part in SKIPPED or part.startswith(".venv") for part in path.relative_to(ROOT).parts)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
VERB = re.compile(r"\bmake ([a-z][a-z-]*)")


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """The page without its code blocks, where brackets mean other things."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    titles = re.findall(r"^#+ (.+)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def verbs() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page_id(page)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(file), f"{page_id(page)} links to {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_make_verbs_exist(page: Path) -> None:
    code = " ".join(re.findall(r"`+[^`]+`+", page.read_text()))
    assert set(VERB.findall(code)) <= verbs()


def test_the_house_names_every_floor_and_every_folder_of_tests() -> None:
    house = (ROOT / "docs/house.md").read_text()
    contract = (ROOT / ".importlinter").read_text().split("[importlinter:contract:infra]")[1].split("exhaustive")[0]
    floors = re.findall(r"\b(\w+)\b", contract.split("layers =\n")[1])
    tests = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")} - {"infra", "flows", "tasks", "blocks"}
    missing = [name for name in floors if f"`{name}`" not in house and f"`{name}/`" not in house]
    missing += [name for name in sorted(tests) if f"`tests/{name}`" not in house]
    assert len(floors) > 10 and not missing, f"docs/house.md does not name {', '.join(missing)}"


def test_ci_runs_the_check_and_the_readme_s_tests() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    in_readme = re.findall(r"^(make test)\b(?!-)", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    in_ci = re.findall(r"^section \w+ (make \S+)$", script.read_text(), flags=re.MULTILINE)
    assert {"make check", *in_readme} <= set(in_ci)
    assert in_readme


def test_scripts_are_sound_shell() -> None:
    for script in (path for path in (ROOT / ".ci").iterdir() if path.read_text().startswith("#!/usr/bin/env bash")):
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "set -euo pipefail" in script.read_text()


@pytest.mark.parametrize("tier", ["slices", "drills", "prefect", "compiler", "frameworks", "machine"])
def test_every_required_tier_has_tests(tier: str) -> None:
    users = [path for path in (ROOT / "tests").rglob("test_*.py") if f"pytest.mark.{tier}" in path.read_text()]
    assert set(users) - {Path(__file__)}, f"no test carries the marker {tier}: the tier would pass by being empty"
