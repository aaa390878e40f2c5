"""The images: linted, pinned, without rights or secrets that they do not need. Nothing here builds them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from prefect_tpu import __version__

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deployments/image/Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
Instruction = tuple[str, str]


def hadolint(text: str) -> str:
    """What the linter finds."""
    program = shutil.which("hadolint", path=sysconfig.get_path("scripts")) or shutil.which("hadolint")
    if program is None:
        assert not (sys.platform == "linux" and sysconfig.get_platform().endswith("x86_64")), "run `make setup` again"
        pytest.skip("There is no hadolint for this machine.")
    command = [program, "--no-color", "--failure-threshold", "style", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60).stdout


def stages() -> dict[str, list[Instruction]]:
    """Instructions by stage, the first of each its FROM; "" is what stands before all of them."""
    found: dict[str, list[Instruction]] = {"": []}
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE))
    name = ""
    for line in (line for line in joined.splitlines() if line.strip()):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            name = rest.split(" AS ")[1]
            found[name] = []
        found[name].append((word, rest.strip()))
    return found


def arguments() -> dict[str, str]:
    """Every build argument with its usual value; the same in each stage that names it."""
    found: dict[str, str] = {}
    for name, value in (rest.split("=") for one in stages().values() for word, rest in one if word == "ARG"):
        assert found.setdefault(name, value) == value, f"{name} is another one elsewhere"
    return found


def pinned(stage: str) -> dict[str, str]:
    """Packages that a stage installs, with their versions."""
    told = " ".join(rest for word, rest in stages()[stage] if word == "RUN")
    found = re.findall(r'"([a-z-]+)(?:\[\w+\])?==\$\{(\w+)\}"', told)
    return {name: arguments()[variable] for name, variable in found}


def test_the_linter_finds_nothing() -> None:
    assert hadolint(DOCKERFILE.read_text()) == ""


def test_the_linter_would_find_something() -> None:
    assert "DL3013" in hadolint("FROM python:3.12\nRUN pip install --no-cache-dir jax\n")


@pytest.mark.parametrize("target", ["program", "flow", "launcher"])
def test_what_is_shipped_has_no_tools_of_its_making(target: str) -> None:
    (_, base), *rest = stages()[target]
    assert base == f"base AS {target}"
    assert [told for word, told in rest if word == "COPY"] == [f"--from={target}-packages /venv /venv"]
    assert not [told for word, told in rest if word == "RUN"]


def test_versions_are_those_that_this_package_takes() -> None:
    wanted = {one.name: one.specifier for one in map(Requirement, PROJECT["dependencies"])}
    for stage in ("program-packages", "flow-packages", "launcher-packages"):
        for name, version in pinned(stage).items():
            assert version in wanted.get(name, SpecifierSet()), f"{name} {version}"
    assert f"{arguments()['PYTHON']}.0" in SpecifierSet(PROJECT["requires-python"])
    assert set(pinned("launcher-packages")) >= {"prefect", "jax"}
    assert stages()["flow-packages"][0] == ("FROM", "program-packages AS flow-packages") and pinned("flow-packages")


def test_programs_get_what_the_pods_of_our_tests_have() -> None:
    needs = re.search(r"^POD_NEEDS := (.+)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert needs and set(pinned("program-packages")) == {Requirement(one).name for one in needs[1].split()}


def test_the_launcher_runs_as_the_user_that_the_reaper_asks_for() -> None:
    # and the worker: tests/deployments/test_gke.py
    manifests: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "deployments/gke/reaper.yaml").read_text()))
    (cron,) = (one for one in manifests if one["kind"] == "CronJob")
    asked = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["securityContext"]
    assert ("USER", f"{asked['runAsUser']}:{asked['runAsGroup']}") in stages()["launcher"]


def test_tags_are_of_these_versions() -> None:
    text = DOCKERFILE.read_text()
    assert f"/launcher:{__version__} " in text
    assert all(f"/{name}:jax-{arguments()['JAX']} " in text for name in ("program", "flow"))


def test_nothing_asks_for_a_secret() -> None:
    told = [rest for one in stages().values() for word, rest in one if word in ("ARG", "ENV")]
    assert not re.search(r"token|secret|password|credential|api_?key", " ".join(told), flags=re.IGNORECASE)


def test_the_context_is_what_the_wheel_is_made_of() -> None:
    """tests/house/test_wheel.py builds one from these."""
    text = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == "*" and lines[-1] == "**/__pycache__"
    folders = {value.partition("/")[0] for value in _setuptools()["package-dir"].values()}
    files = {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml"}
    assert {line.removeprefix("!") for line in lines[1:-1]} == folders | files


def _setuptools() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    return found
