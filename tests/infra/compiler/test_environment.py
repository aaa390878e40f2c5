"""Where the compiler is: named, found, refused for another JAX, or made once. What pip does is a small script here."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from prefect_tpu.infra.compiler.environment import find_compiler, own_folder
from prefect_tpu.infra.compiler.fetching import READY
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError, UsageError

JAX = metadata.version("jax")


def environment(folder: Path, jax: str = JAX, *, has_library: bool = True) -> Path:
    """A virtual environment that has these distributions, by the look of it."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    for name, version in {"jax": jax, "libtpu": "0.0.42"}.items():
        info = packages / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (packages / "libtpu").mkdir()
    if has_library:
        (packages / "libtpu" / "libtpu.so").touch()
    return folder / "bin" / "python"


def silent(line: str) -> None:
    pytest.fail(f"nothing is to be said: {line}")


def test_a_named_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Env.COMPILER_PYTHON, str(environment(tmp_path)))
    found = find_compiler(silent)
    assert (found.jax, found.libtpu) == (JAX, "0.0.42")
    assert Path(found.library).exists()


def test_one_for_another_jax_is_refused_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Env.COMPILER_PYTHON, str(environment(tmp_path, "0.1.2")))
    with pytest.raises(UsageError, match=f"JAX is 0.1.2, and the program's is {JAX}") as refused:
        find_compiler(silent)
    assert Env.COMPILER_PYTHON in str(refused.value)


def test_one_without_the_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Env.COMPILER_PYTHON, str(environment(tmp_path, has_library=False)))
    with pytest.raises(UsageError, match="has no libtpu"):
        find_compiler(silent)


@pytest.mark.parametrize("python", ["/nowhere/bin/python", "/bin/false", "/nowhere"])
def test_what_is_no_interpreter_is_refused(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(Env.COMPILER_PYTHON, python)
    with pytest.raises(UsageError, match="does not run"):
        find_compiler(silent)


def test_an_interpreter_outside_of_virtual_environments_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv(Env.COMPILER_PYTHON, str(wrapper))
    with pytest.raises(UsageError, match="has no libtpu"):  # this one has JAX alone
        find_compiler(silent)


def test_one_that_was_made_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(Env.COMPILER_PYTHON, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = own_folder(JAX, {"XDG_CACHE_HOME": str(tmp_path)})
    environment(folder)
    (folder / READY).touch()
    assert find_compiler(silent).library.startswith(str(folder))


def test_one_that_was_made_is_found_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(Env.COMPILER_PYTHON, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = own_folder(JAX, {"XDG_CACHE_HOME": str(tmp_path)})
    environment(folder)
    (folder / READY).touch()
    folder.with_name(f"{folder.name}.lock").mkdir()  # whoever would open it for writing fails
    assert find_compiler(silent).library.startswith(str(folder))


def test_a_half_made_one_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the network, which it is refused here."""
    monkeypatch.delenv(Env.COMPILER_PYTHON, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = own_folder(JAX, {"XDG_CACHE_HOME": str(tmp_path)})
    environment(folder)
    said: list[str] = []
    with pytest.raises(PlatformError, match=r"jax\[tpu\]") as refused:
        find_compiler(said.append)
    assert "700 MB" in said[0]
    assert "No matching distribution" in str(refused.value)
    assert not (folder / READY).exists()
    assert not (folder / "lib" / "python3.11" / "site-packages" / "libtpu").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(Env.COMPILER_PYTHON, raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(PlatformError, match="XDG_CACHE_HOME"):
        find_compiler(silent)
