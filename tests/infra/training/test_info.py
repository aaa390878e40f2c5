"""What a program learns of its job, with and without one, and that JAX is not loaded for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.training.info import Info, info


def test_outside_a_job_it_is_a_single_host() -> None:
    assert info() == Info(job=None, attempt=0, host=0, hosts=1, accelerator=None, output=Path("."), data={})
    assert info().is_leader and not info().inside_job


def test_inside_a_job_the_plan_says_it(inside_job: Callable[..., Any], tmp_path: Path) -> None:
    inside_job(host=1, hosts=2)
    here = info()
    assert (here.job, here.attempt, here.host, here.hosts, here.accelerator) == ("digits", 3, 1, 2, "cpu-2x1")
    assert here.output == tmp_path / "out" / "digits"
    assert here.inside_job and not here.is_leader


def test_staged_data_is_a_file_or_a_folder(inside_job: Callable[..., Any], tmp_path: Path) -> None:
    inside_job(data={"table": "ab", "pictures": "cd"})
    stage(tmp_path / "out", "ab", {"kind": "file", "name": "table.csv"})
    (tmp_path / "out" / layout.data("ab") / "table.csv").write_text("1,2\n")
    stage(tmp_path / "out", "cd", {"kind": "folder", "name": "pictures"})
    root = tmp_path / "out"
    assert info().data == {"table": root / layout.data("ab") / "table.csv", "pictures": root / layout.data("cd")}


def test_data_that_is_not_there_is_named(inside_job: Callable[..., Any], tmp_path: Path) -> None:
    inside_job(data={"table": "ab"})
    with pytest.raises(PlatformError, match="Data 'table' is not staged at"):
        info()
    stage(tmp_path / "out", "ab", {"kind": "file", "name": "table.csv"})
    with pytest.raises(PlatformError, match=r"Data 'table' is not at .*table\.csv any more\. Start the job again"):
        info()


def test_nothing_of_the_programs_side_loads_jax() -> None:
    """But for what is a Keras callback, which Keras must be there for."""
    code = (
        "import pkgutil, sys, importlib, prefect_tpu.infra.training as t\n"
        "names = {m.name for m in pkgutil.iter_modules(t.__path__)} - {'keras_callback', 'keras_model'}\n"
        "for name in names: importlib.import_module(f'prefect_tpu.infra.training.{name}')\n"
        "heavy = {'jax', 'jaxlib', 'orbax', 'numpy', 'prefect', 'pydantic'} & set(sys.modules)\n"
        "print(len(names), sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    count, heavy = done.stdout.split(maxsplit=1)
    assert int(count) > 10 and heavy.strip() == "[]"


def stage(output: Path, sha256: str, manifest: dict[str, str]) -> None:
    folder = output / layout.data(sha256)
    folder.mkdir(parents=True)
    folder.with_name(f"{sha256}.json").write_bytes(contract.write_json(manifest))


def test_a_job_in_a_bucket_finds_its_data_on_the_host_s_own_disk(
    inside_job: Callable[..., Any], tmp_path: Path
) -> None:
    inside_job(data={"table": "ab"}, output="gs://bucket/jobs/digits", scratch=str(tmp_path / "disk"))
    folder = tmp_path / "scratch" / contract.Scratch.DATA / "ab"
    folder.mkdir(parents=True)
    (folder / "table.csv").write_text("1,2\n")
    folder.with_name("ab.json").write_bytes(contract.write_json({"kind": "file", "name": "table.csv"}))
    assert info().output == "gs://bucket/jobs/digits"
    assert info().data == {"table": folder / "table.csv"}
