"""What is the compiler asked? A program, and a slice that it would have; as it travels to the child."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.own_code import find_module, parse
from prefect_tpu.infra.packing import function_in
from prefect_tpu.infra.signatures import Signature, check_params, in_source

MESH = "mesh"  # the first parameter of a function that lowers its step for a mesh which it is given

_FILE = re.compile(r"(?P<place>.+\.py):(?P<name>[A-Za-z_]\w*)")
_MODULE = re.compile(r"(?P<place>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is run to come to a step.

    kind: `file` or `module`: a function of it; `script`: a whole file; `function`: what a payload carries.
    place: the file's absolute path, the module's name, or of a payload the function's name.
    function: its name; empty of a script.
    work: the folder from which it is imported; empty of a payload.
    arguments: of a script.
    data: name → place of the data that the program finds as if it were staged.
    env: further variables of the program.
    payload, folder: of a function that was sent: the hash of what it came in, and the job's folder, where that lies.
    """

    kind: str
    place: str
    function: str
    work: str
    arguments: tuple[str, ...] = ()
    data: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    payload: str = ""
    folder: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Target:
        return cls(**{**data, "arguments": tuple(data["arguments"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One slice, or several, for the program with these parameters.

    accelerator: its canonical name.
    mesh: what the program gets where it says none, as JSON; empty for one axis `data`.
    """

    accelerator: str
    slices: int = 1
    params: dict[str, Any] = field(default_factory=dict)
    mesh: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Question:
        return cls(**data)


def find_target(
    text: str, params: Mapping[str, Any], arguments: Sequence[str] = (), data: Mapping[str, str] | None = None
) -> Target:
    """The target that a person names: `path.py:function`, `pkg.mod:function` or a script `path.py`.

    data: name → path, as the program asks `prefect_tpu.info()` for it.

    Raises `UsageError` where it is not there, or does not take these parameters.
    """
    return replace(_target(text, params, arguments), data={name: _there(name, p) for name, p in (data or {}).items()})


def _target(text: str, params: Mapping[str, Any], arguments: Sequence[str]) -> Target:
    here = str(Path.cwd())
    if found := _FILE.fullmatch(text):
        path = _existing(found["place"])
        _check(text, path, found["name"], params, arguments)
        return Target(kind="file", place=str(path), function=found["name"], work=str(path.parent))
    if found := _MODULE.fullmatch(text):
        source = find_module(found["place"])
        if source is not None:
            _check(text, source, found["name"], params, arguments)
        return Target(kind="module", place=found["place"], function=found["name"], work=here)
    if text.endswith(".py"):
        path = _existing(text)
        if params:
            raise UsageError(
                f"{text} is a script, which takes no parameters ({', '.join(params)}): give it arguments after '--', or"
                f" name a function, such as {text}:main."
            )
        return Target(kind="script", place=str(path), function="", work=str(path.parent), arguments=tuple(arguments))
    raise UsageError(
        f"{text!r} is no program with a step: name path.py:function, pkg.mod:function or a script path.py that calls"
        " prefect_tpu.step, or a function lower(mesh, …). A command cannot be looked into."
    )


def params_of(text: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Of a program's parameters those that the function has which lowers its step; all where its source does not tell.

    Raises `UsageError` where it is not there.
    """
    source: Path | None = None
    if found := _FILE.fullmatch(text):
        source = _existing(found["place"])
    elif found := _MODULE.fullmatch(text):
        source = find_module(found["place"])
    signature = in_source(parse(source), found["name"]) if found and source else None
    names = set(params) if signature is None else {parameter.name for parameter in signature.by_name}
    if takes_mesh(signature):
        names -= {MESH}  # it is given the slice's own, whatever the program's parameter of that name is
    return {name: value for name, value in params.items() if name in names}


def asked_in_words(question: Question) -> str:
    """Such as `2 × v6e-16, batch=64`."""
    slices = f"{question.slices} × " if question.slices > 1 else ""
    params = "".join(f", {name}={value}" for name, value in question.params.items())
    return f"{slices}{question.accelerator}{params}"


def takes_mesh(signature: Signature | None) -> bool:
    """Whether a function lowers its step itself. One whose mesh has a default is a program that takes a spec."""
    taken = () if signature is None else (*signature.by_position, *signature.by_name)
    return bool(taken) and taken[0].name == MESH and not taken[0].has_default


def _there(name: str, place: str) -> str:
    path = Path(place).expanduser().absolute()
    if not path.exists():
        raise UsageError(
            f"Data {name!r} is not at {place}: check the path. Of what lies in a bucket, copy a part to this machine"
            " and name that, or name a function lower(mesh, …), which needs no data."
        )
    return str(path)


def _existing(place: str) -> Path:
    path = Path(place).absolute()
    if not path.is_file():
        raise UsageError(f"Program {place} is not there: check the path.")
    return path


def _check(text: str, path: Path, name: str, params: Mapping[str, Any], arguments: Sequence[str]) -> None:
    if arguments:
        raise UsageError(f"{text!r} is a function: give it parameters (name=value), not arguments.")
    signature = function_in(path, name)
    if not takes_mesh(signature):
        check_params(signature, params)
    elif MESH in params:
        raise UsageError(f"{text} is given the slice's mesh: name its axes by --mesh, and not as a parameter.")
    else:
        check_params(signature, {**params, MESH: None})
