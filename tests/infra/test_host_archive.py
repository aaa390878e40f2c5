"""What travels to a host: complete, small, the same each time, and run by a Python that has nothing of ours."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped,unused-ignore]
import pytest
from gcs import Gcs

from prefect_tpu.infra.host_archive import FILE, LARGEST_BYTES, host_archive, pack
from prefect_tpu.infra.plan import HostPlan


@pytest.fixture(scope="module")
def names() -> list[str]:
    return zipfile.ZipFile(io.BytesIO(host_archive().raw)).namelist()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "mount" / FILE
    path.parent.mkdir()
    path.write_bytes(host_archive().raw)
    return path


def python(code: str, archive: Path, *, cwd: Path | None = None, **environment: str) -> str:
    """What the code prints, where the archive is the first place to import from."""
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],  # of the standard library alone
        env={"PYTHONPATH": str(archive), **environment},
        cwd=cwd or archive.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_fits_a_config_map() -> None:
    assert len(host_archive().raw) <= LARGEST_BYTES


def test_it_holds_what_runs_on_a_slice_and_the_words_and_nothing_of_the_launchers_side(names: list[str]) -> None:
    ours = {name for name in names if name.startswith("prefect_tpu/")}
    assert {"prefect_tpu/__init__.py", "prefect_tpu/infra/host/runner.py", "prefect_tpu/infra/training/join.py"} < ours
    assert {"prefect_tpu/infra/contract.py", "prefect_tpu/infra/accelerators.py"} < ours
    rooms = {name.split("/")[2] for name in ours if name.count("/") == 3}
    assert rooms == {"host", "training"}
    assert {name for name in ours if name.startswith("prefect_tpu/flows/")} == {
        f"prefect_tpu/flows/{module}.py" for module in ("__init__", "brief", "every_host", "options", "run")
    }


def test_everything_of_ours_that_it_loads_is_in_it(names: list[str]) -> None:
    held = zipfile.ZipFile(io.BytesIO(host_archive().raw))
    for name in (name for name in names if name.startswith(("prefect_tpu/infra/", "prefect_tpu/flows/"))):
        whole = name.count("/") == 3  # what runs on a slice loads some of it later
        tree = ast.parse(held.read(name))
        for node in ast.walk(tree) if whole else tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prefect_tpu."):
                place = str(node.module).replace(".", "/")
                assert {f"{place}.py", f"{place}/__init__.py"} & set(names), f"{name} imports {node.module}"


def test_equal_code_makes_equal_bytes() -> None:
    files = {"b.py": b"b", "a.py": b"a"}
    assert pack(files) == pack(dict(reversed(files.items())))
    made = subprocess.run(
        [sys.executable, "-c", "from prefect_tpu.infra.host_archive import *; print(host_archive().sha256)"],
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == host_archive().sha256


def test_a_program_finds_our_names_and_the_cloudpickle_that_pickled(archive: Path) -> None:
    code = "import prefect_tpu as tpu; tpu.join, tpu.info, tpu.checkpoints, tpu.resolve; print(tpu.__file__)"
    assert python(code, archive) == f"{archive}/prefect_tpu/__init__.py"
    code = "from importlib.metadata import version; import cloudpickle; print(version('cloudpickle'))"
    assert python(code, archive) == cloudpickle.__version__


def test_names_that_ask_for_jobs_can_be_imported_and_say_that_they_are_elsewhere(archive: Path) -> None:
    code = """
from prefect_tpu import Job, PrefectTpuError, attach, run, submit, train
@run(accelerator="v6e-16")
def double(x): return 2 * x
assert Job.__name__ == "Job" and not isinstance(0, Job)
try:
    train("a.py:main")
except PrefectTpuError as exc:
    print(double(4), exc)
"""
    said = python(code, archive, PREFECT_TPU_PLAN="/plan.json")
    assert said == (
        "8 prefect_tpu.train asks for jobs, and this host of one has only what a program needs. Call it where"
        " prefect-tpu is installed."
    )


def test_ours_wins_over_one_that_the_image_has(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "site"
    for place in (other / "prefect_tpu", other / "cloudpickle"):
        place.mkdir(parents=True)
        (place / "__init__.py").write_text("raise SystemExit('another one was found')")
    started = subprocess.run(
        [sys.executable, "-S", archive], env={"PYTHONPATH": str(other)}, cwd=other, capture_output=True, text=True
    )
    assert started.returncode != 0 and "another one was found" not in started.stderr
    code = "import prefect_tpu, cloudpickle; print(prefect_tpu.__file__)"
    found = python(code, archive, cwd=other, PYTHONPATH=f"{archive}{os.pathsep}{other}")
    assert found.startswith(str(archive))


def test_nothing_heavy_is_loaded_before_it_is_used(archive: Path) -> None:
    code = (
        "import sys, prefect_tpu.infra.host.runner as r, prefect_tpu.infra.training.join; print(*sorted(sys.modules))"
    )
    loaded = set(python(code, archive).split())
    assert not loaded & {"jax", "numpy", "cloudpickle", "urllib.request", "http.client", "ssl", "asyncio", "logging"}


def test_a_drill_strikes_in_a_pod_whose_job_lies_in_a_bucket(
    archive: Path, bucket: str, gcs: Gcs, make_plan: Callable[..., HostPlan]
) -> None:
    plan = make_plan(output=f"{bucket}/jobs/first", drills=("fail@step=1",))
    archive.with_name("plan.json").write_bytes(plan.to_json())
    code = """
from pathlib import Path
from prefect_tpu.infra.drills import DrillFailure, Moment
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.rehearsal import Rehearsal
rehearsal = Rehearsal(HostPlan.from_json(Path("plan.json").read_bytes()))
try:
    rehearsal.strike(Moment.STEP, 1)
except DrillFailure as exc:
    print(exc)
"""
    assert "struck at step 1" in python(code, archive, **gcs.environment)
