"""What is asked travels whole, and a target that is not there is refused before anything is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra.compiler.question import Question, Target, find_target, params_of, takes_mesh
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.signatures import of_function

PROGRAM = """
def main(steps: int = 3): ...
def lower(mesh, width: int): ...
async def later(): ...
def values(): yield 1
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(PROGRAM)
    return path


def test_travels_whole(program: Path) -> None:
    (program.parent / "rows.csv").write_text("1")
    target = find_target("model.py:main", {"steps": 2}, data={"rows": "rows.csv"})
    question = Question(accelerator="v6e-16", slices=2, params={"steps": 2}, mesh='{"data": -1}')
    assert Target.from_json(target.to_json()) == target
    assert Question.from_json(question.to_json()) == question
    assert target.data == {"rows": str(program.parent / "rows.csv")}


def test_a_function_a_module_and_a_script(program: Path) -> None:
    file, module = find_target("model.py:main", {}), find_target("model:main", {})
    script = find_target("model.py", {}, ["--steps", "3"])
    assert (file.kind, file.place, file.function) == ("file", str(program), "main")
    assert (module.kind, module.place, module.work) == ("module", "model", str(program.parent))
    assert (script.kind, script.place, script.arguments) == ("script", str(program), ("--steps", "3"))


def test_the_mesh_is_given_by_us(program: Path) -> None:
    assert find_target("model.py:lower", {"width": 8}).function == "lower"
    with pytest.raises(UsageError, match="needs 'width'"):
        find_target("model.py:lower", {})


@pytest.mark.parametrize(
    ("text", "params", "arguments", "why"),
    [
        ("other.py:main", {}, (), "is not there"),
        ("other.py", {}, (), "is not there"),
        ("model.py:mein", {}, (), r"model\.py has no function 'mein'\. It has: lower, main, values\."),
        ("model:mein", {}, (), r"model\.py has no function 'mein'\. It has: lower, main, values\."),
        ("model.py:later", {}, (), "'later' is asynchronous: give a plain one"),
        ("model.py:values", {}, (), "'values' is a generator"),
        ("model.py:main", {"speed": 1}, (), "no parameter 'speed'"),
        ("model.py:main", {"steps": "many"}, (), "takes int"),
        ("model.py:main", {}, ("--fast",), "not arguments"),
        ("model.py", {"steps": 1}, (), "takes no parameters"),
        ("other:main", {}, (), "cannot be found"),
        ("torchrun", {}, (), "no program with a step"),
    ],
)
def test_what_is_not_there_is_refused(
    program: Path, text: str, params: dict[str, object], arguments: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        find_target(text, params, arguments)


def test_a_mesh_is_no_parameter_of_a_function_that_is_given_one(program: Path) -> None:
    with pytest.raises(UsageError, match="name its axes by --mesh"):
        find_target("model.py:lower", {"width": 8, "mesh": "tp=-1"})
    assert params_of("model.py:lower", {"mesh": "tp=-1", "width": 8}) == {"width": 8}


def test_of_a_program_s_parameters_a_function_that_lowers_takes_its_own(program: Path) -> None:
    for text in ("model.py:lower", "model:lower"):
        assert params_of(text, {"steps": 3, "width": 8}) == {"width": 8}
    assert params_of("torchrun", {"steps": 3}) == {"steps": 3}  # which is refused later
    with pytest.raises(UsageError, match="is not there"):
        params_of("other.py:lower", {})


def test_data_that_is_not_there_is_refused(program: Path) -> None:
    with pytest.raises(UsageError, match="Data 'rows' is not at"):
        find_target("model.py:main", {}, data={"rows": "rows.csv"})


def test_data_is_found_at_home_and_not_in_a_bucket(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(program.parent))
    (program.parent / "rows.csv").write_text("1")
    assert find_target("model.py:main", {}, data={"rows": "~/rows.csv"}).data == {"rows": f"{program.parent}/rows.csv"}
    with pytest.raises(UsageError, match="copy a part to this machine"):
        find_target("model.py:main", {}, data={"rows": "gs://bucket/rows.csv"})


def test_a_mesh_with_a_default_is_a_parameter_like_others() -> None:
    def lower(mesh: object, width: int = 1) -> None: ...
    def main(mesh: str = "data=-1") -> None: ...

    assert takes_mesh(of_function(lower))
    assert not takes_mesh(of_function(main))
    assert not takes_mesh(None)
