"""The program's own code is found whatever shape its packages have; what is installed stays where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.own_code import code_of, find_module, parse, siblings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with what it imports forgotten afterwards."""
    modules = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def lay(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_package_without_an_init_file_travels(folder: Path) -> None:
    lay(folder, train="import parts.deep.net\n", parts__deep__net="import beside\n", parts__other="", beside="")
    expected = {"parts/deep/net.py", "parts/other.py", "beside.py"}
    assert set(siblings(folder / "train.py")) == expected | {"train.py"}
    assert find_module("parts.deep.net") == folder / "parts/deep/net.py"
    assert set(code_of("parts")) == expected


def test_an_installed_package_goes_before_a_folder_of_its_name(folder: Path) -> None:
    lay(folder, train="import psutil, json, collections\n", psutil__a="", json__a="", collections__a="")
    assert set(siblings(folder / "train.py")) == {"train.py"}
    assert code_of("psutil") == {}


def test_a_module_goes_before_a_folder_of_its_name(folder: Path) -> None:
    lay(folder, train="import parts\n", parts="", parts__a="")
    assert set(siblings(folder / "train.py")) == {"train.py", "parts.py"}


def test_a_package_travels_with_what_it_imports_beside_it(folder: Path) -> None:
    lay(folder, pack__a="", beside="")
    (folder / "pack" / "__init__.py").write_text("import beside\n")
    assert set(code_of("pack")) == {"pack/__init__.py", "pack/a.py", "beside.py"}


EVERYWHERE = """
import a
class Net:
    import b
    def forward(self):
        async def later():
            from c import x
        with self: import d
try: import e
except ImportError: import f
else: import g
finally: import h
for n in (): pass
else: import i
while False: import j
if a: pass
elif b: import k
match a:
    case 1: import l
"""


def test_an_import_counts_wherever_it_stands(folder: Path) -> None:
    lay(folder, train=EVERYWHERE, m="", **dict.fromkeys("abcdefghijkl", ""))
    assert set(siblings(folder / "train.py")) == {"train.py", *(f"{name}.py" for name in "abcdefghijkl")}


def test_only_files_beside_the_program_must_parse(folder: Path) -> None:
    lay(folder, train="import parts, broken\n", parts__template="def {{ name }}(\n", broken="")
    assert "parts/template.py" in siblings(folder / "train.py")
    (folder / "broken.py").write_text("def (\n")
    with pytest.raises(UsageError, match=r"broken\.py does not parse"):
        siblings(folder / "train.py")


def test_a_package_that_fails_while_it_is_imported_is_refused_with_its_error(folder: Path) -> None:
    lay(folder, parts__train="")
    (folder / "parts" / "__init__.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match=r"'parts\.train' cannot be found: ZeroDivisionError"):
        find_module("parts.train")


def test_a_name_that_cannot_travel_is_refused(folder: Path) -> None:
    lay(folder, train="import parts\n", parts__a="")
    Path(os.fsdecode(os.fsencode(folder) + b"/parts/\xff")).write_text("")
    with pytest.raises(UsageError, match="is no UTF-8, so it cannot travel: rename it"):
        siblings(folder / "train.py")


def test_a_working_folder_that_is_gone_is_said(folder: Path) -> None:
    (folder / "gone").mkdir()
    os.chdir(folder / "gone")
    (folder / "gone").rmdir()
    with pytest.raises(UsageError, match="does not exist any more"):
        find_module("parts")


def test_a_program_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.py cannot be read: No such file"):
        parse(folder / "nowhere.py")


def test_a_file_that_runs_by_its_path_imports_nothing_relatively(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nfrom . import other\n")
    with pytest.raises(UsageError, match="relative import in line 2.*name the program as pkg.mod:function"):
        siblings(tmp_path / "train.py")


def test_what_does_not_parse_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\ndef main(:\n")
    with pytest.raises(UsageError, match=r"train\.py does not parse in line 2: invalid syntax\. Correct it"):
        siblings(tmp_path / "train.py")


FROM_INPUT = """
import cloudpickle
from prefect_tpu.infra.own_code import code_around

def main():
    import beside
    return beside

print(*code_around(main, {"main": cloudpickle.dumps(main)}))
"""


def test_a_program_from_standard_input_has_no_file_and_travels_with_what_lies_in_the_working_folder(
    folder: Path,
) -> None:
    lay(folder, beside="", unused="")
    command = [sys.executable, "-P", "-"]
    found = subprocess.run(command, input=FROM_INPUT, cwd=folder, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["beside.py"]
