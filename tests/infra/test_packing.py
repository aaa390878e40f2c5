"""What travels: the program's own code, all of it and nothing else, always the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import threading
import types
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout, packing
from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.job import with_payload
from prefect_tpu.infra.packing import Packed, pack, pack_function, packed_before
from prefect_tpu.infra.storage import LocalStorage

FILES = {
    "train.py": "import net_a\nfrom deep_pkg.part import value\nimport os\ndef main(steps=1): pass\nalias = main\n",
    "script.py": "import train\ntrain.main()\n",
    "net_a.py": "def f():\n    import net_b\n",
    "net_b.py": "import train\n",
    "unused.py": "syntax error (\n",
    "deep_pkg/__init__.py": "",
    "deep_pkg/part.py": "from . import other\nimport from_package\nvalue = max\n",
    "deep_pkg/other.py": "",
    "deep_pkg/weights.bin": "w",
    "deep_pkg/.hidden": "secret",
    "deep_pkg/__pycache__/part.pyc": "x",
    "from_package.py": "",
    "constant.py": "main = [3]\ndef outer():\n    inner = 1\n    return inner\n",
    "later.py": "async def main(): pass\n",
    "values.py": "def main():\n    yield 1\n",
    "collected.py": "def main():\n    yield 1\nmain = list\n",
    "within.py": "def main():\n    def rows():\n        yield 1\n    return [*rows()]\n",
    "starred.py": "from net_b import *\n",
    "lazy.py": "def __getattr__(name): return print\n",
    "data.csv": "1,2",
}
TRACED = {"train.py", "net_a.py", "net_b.py", "from_package.py", "deep_pkg/__init__.py", "deep_pkg/part.py",
          "deep_pkg/other.py", "deep_pkg/weights.bin"}  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    modules = set(sys.modules)
    folder = tmp_path / "source"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield folder
    for name in set(sys.modules) - modules:
        if folder in Path(getattr(sys.modules[name], "__file__", None) or "").parents:
            del sys.modules[name]  # of others there must not be two, as of cloudpickle


def files(packed: Packed) -> dict[str, bytes]:
    assert packed.payload is not None
    with zipfile.ZipFile(io.BytesIO(packed.payload)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_file_travels_with_what_it_imports_directly_or_through_others(source: Path) -> None:
    packed = pack(f"{source}/train.py:main", {"steps": 3}, ())
    assert set(files(packed)) == TRACED
    assert (packed.program.kind, packed.program.target, packed.program.params) == (
        "file",
        "train.py:main",
        {"steps": 3},
    )
    assert packed.payload is not None
    assert packed.program.payload == hashlib.sha256(packed.payload).hexdigest()


def test_the_same_files_make_the_same_bytes_whatever_else_changes(source: Path, tmp_path: Path) -> None:
    first = pack(f"{source}/train.py:main", {}, ())
    (source / "unused.py").write_text("changed")
    for path in source.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o755)
    moved = source.rename(tmp_path / "moved")
    assert pack(f"{moved}/train.py:main", {}, ()) == first
    (moved / "net_b.py").write_text("x = 1\n")
    assert pack(f"{moved}/train.py:main", {}, ()).program.payload != first.program.payload


def test_a_script_and_a_function_named_by_an_alias(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source)
    script = pack("script.py", {}, ("--steps", "3"))
    assert (script.program.kind, script.program.target) == ("command", "python")
    assert script.program.arguments == ("script.py", "--steps", "3")
    assert set(files(script)) == {*TRACED, "script.py"}
    assert pack("train.py:alias", {}, ()).program.target == "train.py:alias"


@pytest.mark.parametrize("text", [
    "",
    "import this\n",
    "def f(): pass\nf()\n",
    "def f(): pass\nx = f()\n",
    "def f(): pass\nif __name__ == '__main__': f()\n",
    "def f(): pass\nfor _ in (): pass\n",
])  # fmt: skip
def test_a_script_that_may_do_something_is_sent(source: Path, text: str) -> None:
    (source / "some.py").write_text(text)
    assert pack(f"{source}/some.py", {}, ()).program.kind == "command"


@pytest.mark.parametrize("more", ["", "'words'\n", "SIZE: int = 3\n", "class A:\n    x = print()\n", "import os\n"])
def test_a_script_that_only_defines_would_do_nothing(source: Path, more: str) -> None:
    (source / "some.py").write_text(f"{more}def g(): pass\ndef f(): g()\n")
    with pytest.raises(UsageError, match=r"only defines functions \(f, g\) .* such as .*some\.py:f\."):
        pack(f"{source}/some.py", {}, ())


def test_a_module_of_the_working_folder_travels(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source)
    path = list(sys.path)
    packed = pack("net_a:f", {}, ())
    assert (packed.program.kind, packed.program.target) == ("module", "net_a:f")
    assert set(files(packed)) == TRACED
    whole = pack("deep_pkg.part:value", {}, ())
    assert set(files(whole)) == {name for name in TRACED if name.startswith("deep_pkg/")} | {"from_package.py"}
    assert sys.path == path


@pytest.mark.parametrize("target", ["starred.py:main", "lazy.py:main", "collected.py:main", "within.py:main"])
def test_what_a_module_s_source_does_not_tell_is_left_to_the_host(source: Path, target: str) -> None:
    assert pack(f"{source}/{target}", {}, ()).program.target == target


def test_an_installed_module_stays_where_it_is() -> None:
    for target in ("json:dumps", "psutil:cpu_count", "prefect_tpu.infra.accelerators:every_name"):
        assert pack(target, {}, ()).payload is None


def test_code_in_a_clone_of_ours_is_the_programs_own(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "docs" / "examples")
    assert "digits.py" in files(pack("digits:main", {}, ()))


def test_a_command_is_looked_up_and_nothing_travels() -> None:
    packed = pack("sh", {}, ("-c", "true"))
    assert packed.payload is None
    assert (packed.program.kind, packed.program.target, packed.program.arguments) == ("command", "sh", ("-c", "true"))


@pytest.mark.parametrize(
    ("target", "params", "arguments", "says"),
    [
        ("absent.py:main", {}, (), r"absent\.py cannot be read: No such file"),
        ("absent.py", {}, (), r"absent\.py cannot be read"),
        ("unused.py:main", {}, (), r"unused\.py does not parse"),
        ("unused.py", {}, (), r"unused\.py does not parse"),
        ("train.py:absent", {}, (), r"train\.py has no function 'absent'\. It has: main\."),
        ("net_b:main", {}, (), r"net_b\.py has no function 'main'\. It has: none\."),
        ("no_such_module:main", {}, (), "'no_such_module' cannot be found .* Run from the folder that holds it"),
        ("no_such.module:main", {}, (), r"'no_such\.module' cannot be found"),
        ("later.py:main", {}, (), "'main' is asynchronous: give a plain one that calls `asyncio.run"),
        ("values.py:main", {}, (), "'main' is a generator, which does nothing"),
        ("no-such-command", {}, (), "'no-such-command' is no program: name path.py:function"),
        ("train.py:main", {}, ("x",), "is a function: give it parameters"),
        ("net_a:f", {}, ("x",), "is a function: give it parameters"),
        ("constant.py:main", {}, (), "'main' in .*constant.py is a value, not a function"),
        ("constant.py:inner", {}, (), "has no function 'inner'. It has: outer"),
        ("train.py:main", {"step": 3}, (), "main has no parameter 'step'. It has: steps. Did you mean 'steps'"),
        ("train.py", {"a": 1}, (), "is a script or command: give it arguments after '--'"),
        (
            "train.py",
            {},
            (),
            r"Script train\.py only defines functions \(main\) and calls none.* such as train\.py:main",
        ),
        ("sh", {"a": 1}, (), "is a script or command"),
        ("train.py:main", {"steps": object()}, (), "must be JSON"),
    ],
)
def test_refusals_say_what_to_change(
    source: Path, monkeypatch: pytest.MonkeyPatch, target: str, params: dict[str, Any], arguments: tuple[str, ...],
    says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(source)
    with pytest.raises(UsageError, match=says):
        pack(target, params, arguments)


def test_code_that_is_too_large_is_refused_with_where_data_belongs(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (source / "deep_pkg" / "weights.bin").open("wb") as file:
        file.truncate(packing.MOST_BYTES)
    with pytest.raises(UsageError, match="is 64 MiB, at most 64 may.*stage it with `data`"):
        pack(f"{source}/train.py:main", {}, ())


def function_of(path: Path, name: str) -> Callable[..., Any]:
    """A function as it looks when `path` was run or imported under `name`."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile("def main(a=0): return 1", str(path), "exec"), module.__dict__)
    return module.__dict__["main"]  # type: ignore[no-any-return]


def test_a_function_travels_with_its_versions_and_the_code_beside_it(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    packed = pack_function(function_of(source / "train.py", "__main__"), {"a": 1})
    found = files(packed)
    assert set(found) == TRACED | {Payload.FUNCTION, Payload.VERSIONS}
    assert json.loads(found[Payload.VERSIONS])["python"] == ".".join(platform.python_version_tuple()[:2])
    assert (packed.program.kind, packed.program.target, packed.program.params) == ("function", "main", {"a": 1})


def test_a_function_that_cannot_be_pickled_is_refused_with_what_to_do() -> None:
    lock = threading.Lock()

    def holds_a_lock() -> object:
        return lock

    with pytest.raises(UsageError, match="holds_a_lock' cannot be sent: .*inside the function instead"):
        pack_function(holds_a_lock, {})


SENDS = """
import sys
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.storage import LocalStorage

class Net:
    pass

def main():
    return Net(), "a" in {"a", "b", "c", "d"}

packed = pack_function(main, {})
print(packed.program.payload, packed.send(LocalStorage(sys.argv[1])).payload)
"""


def test_a_function_that_was_sent_before_is_the_same_in_another_process(tmp_path: Path, storage: LocalStorage) -> None:
    (tmp_path / "sends.py").write_text(SENDS)
    command = [sys.executable, "-P", str(tmp_path / "sends.py"), storage.url]
    once, again = (subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in "12")
    assert once[0] != again[0], "otherwise nothing is tried here"
    assert once[1] == again[1] == once[0]
    assert len(storage.list("payload")) == 2, "the payload and what says which it is"


DAMAGES: tuple[Callable[[LocalStorage, str], None], ...] = (
    LocalStorage.delete,
    lambda storage, name: storage.put(name, b"other"),
)


@pytest.mark.parametrize("damage", DAMAGES, ids=["missing", "changed"])
def test_a_function_whose_payload_was_damaged_is_sent_again(
    storage: LocalStorage, damage: Callable[[LocalStorage, str], None]
) -> None:
    packed = pack_function(lambda: 1, {})
    name = layout.payload(packed.send(storage).payload or "")
    damage(storage, name)
    assert packed.send(storage) == packed.program
    assert storage.get(name) == packed.payload


@pytest.mark.parametrize("damage", DAMAGES, ids=["missing", "changed"])
def test_a_function_that_is_pickled_otherwise_now_cannot_mend_what_was_sent(
    storage: LocalStorage, damage: Callable[[LocalStorage, str], None]
) -> None:
    packed = pack_function(lambda: 1, {})
    damage(storage, layout.payload(packed.send(storage).payload or ""))
    now = replace(packed, program=with_payload(packed.program, "b" * 64), payload=b"the same in other words")
    with pytest.raises(PlatformError, match=r"payload\.zip in .*is missing or was changed.*under another name"):
        now.send(storage)


def test_an_asynchronous_function_is_refused_with_what_to_give() -> None:
    async def later() -> None: ...

    with pytest.raises(UsageError, match=r"'later' is asynchronous: .*asyncio\.run\(later"):
        pack_function(later, {})


def test_a_payload_is_sent_once(source: Path, storage: LocalStorage) -> None:
    packed = pack(f"{source}/train.py:main", {}, ())
    packed.send(storage)
    packed.send(storage)
    name = layout.payload(packed.program.payload or "")
    assert storage.list("payload") == [name]
    assert storage.get(name) == packed.payload
    pack("sh", {}, ()).send(storage)
    packed_before(packed.program.payload or "", "main", {}).send(storage)
    assert storage.list("payload") == [name]


def test_how_many_steps_there_will_be_is_known_where_the_program_says_it(tmp_path: Path) -> None:
    path = tmp_path / "fit.py"
    path.write_text("def main(steps: int = 40): ...\ndef other(steps=None): ...\ndef third(n=3): ...\n")
    asked = [("main", {}), ("main", {"steps": 7}), ("other", {}), ("third", {})]
    assert [pack(f"{path}:{name}", params, ()).program.steps for name, params in asked] == [40, 7, None, None]

    def fit(steps: int = 9) -> None: ...

    assert pack_function(fit, {}).program.steps == 9
