"""Does a function take what it is given? Read from its source or from itself, before anything is sent."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest, shown
from prefect_tpu.infra.own_code import ONE_AT_A_TIME

# What a value that JSON can carry may be given for: Python takes a whole number for a float, but no text for either.
_FITS = {
    "int": frozenset({"int"}),
    "float": frozenset({"int", "float"}),
    "str": frozenset({"str"}),
    "bool": frozenset({"bool"}),
    "None": frozenset({"NoneType"}),
}
_JSON_WORDS = {
    "NoneType": "null",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number with a point",
    "str": "text",
    "list": "a list",
    "dict": "an object",
}
_WRITTEN_OUT = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.JoinedStr


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a function.

    default: where it is a number, text or another constant; else None.
    types: what it is annotated with, where that is `int`, `float`, `str`, `bool`, `None` or some of them; else None.
    """

    name: str
    has_default: bool
    default: Any = None
    types: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function takes.

    by_position: parameters that no name reaches.
    by_name: parameters that a name reaches.
    """

    function: str
    by_position: tuple[Parameter, ...]
    by_name: tuple[Parameter, ...]

    def default_of(self, name: str) -> Any:
        """The constant that a parameter has where none is given; None where it has none."""
        return next((p.default for p in self.by_name if p.name == name), None)


def in_source(tree: ast.Module, name: str) -> Signature | None:
    """The signature of a module's function; None where only running the module would tell, or where it takes any name.

    A decorator may change what a function takes, and so may a second binding of its name.
    """
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    is_bound_again = any(isinstance(n, ast.Name) and n.id == name and _is_stored(n) for n in ast.walk(tree))
    if len(found) != 1 or found[0].decorator_list or is_bound_again or found[0].args.kwarg:
        return None
    taken = found[0].args
    plain = [*taken.posonlyargs, *taken.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(taken.defaults)), *taken.defaults]
    parameters = tuple(map(_written, plain, defaults))
    named = (*parameters[len(taken.posonlyargs) :], *map(_written, taken.kwonlyargs, taken.kw_defaults))
    return Signature(function=name, by_position=parameters[: len(taken.posonlyargs)], by_name=named)


def is_plain_value(tree: ast.Module, name: str) -> bool:
    """Whether what a module binds to a name last is written out, such as a number or a list: nothing to call."""
    bound = [node for node in tree.body if name in _bound_by(node)]
    return (
        bool(bound) and isinstance(bound[-1], ast.Assign | ast.AnnAssign) and isinstance(bound[-1].value, _WRITTEN_OUT)
    )


def _bound_by(node: ast.stmt) -> set[str]:
    """Names that a statement binds, wherever in it, those of the functions inside it too."""
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_stored(n)}
    defined = {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return (
        stored
        | defined
        | {a.asname or a.name for n in ast.walk(node) if isinstance(n, ast.ImportFrom) for a in n.names}
    )


def of_function(function: Callable[..., Any]) -> Signature | None:
    """The signature of a function; None where it has none, or takes any name."""
    try:
        taken = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in taken):
        return None
    return Signature(
        function=getattr(function, "__name__", "the function"),
        by_position=tuple(_live(p) for p in taken if p.kind is p.POSITIONAL_ONLY),
        by_name=tuple(_live(p) for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)),
    )


def check_params(signature: Signature | None, params: Mapping[str, Any]) -> None:
    """Raise `UsageError` where a function cannot be called with these parameters by name."""
    if signature is None:
        return
    _check_names(signature, params)
    for parameter in signature.by_name:
        if parameter.name in params:
            _check_type(signature.function, parameter, params[parameter.name])


def _check_names(signature: Signature, params: Mapping[str, Any]) -> None:
    function, names = signature.function, [p.name for p in signature.by_name]
    unreachable = [p.name for p in signature.by_position if p.name in params or not p.has_default]
    if unreachable:
        raise UsageError(
            f"{function} takes {_listed(unreachable)} by position only, and parameters are given by name: remove the"
            " '/' from its definition."
        )
    for name in params:
        if name not in names:
            said = f"{function} has no parameter {name!r}. {_what_it_has(names)} {nearest(name, names)}"
            raise UsageError(said.rstrip())
    missing = [p.name for p in signature.by_name if not p.has_default and p.name not in params]
    if missing:
        is_one = len(missing) == 1
        was, give = ("was", "a value, or write a default") if is_one else ("were", "values, or write defaults")
        raise UsageError(
            f"{function} needs {_listed(missing)}, which {was} not given. {_what_it_has(names)}"
            f" Give {give} into its definition."
        )


def _what_it_has(names: list[str]) -> str:
    return f"It has: {', '.join(names)}." if names else "It has none: leave it out."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _check_type(function: str, parameter: Parameter, value: object) -> None:
    kind = type(value).__name__
    if parameter.types is None or kind not in _JSON_WORDS or any(kind in _FITS[name] for name in parameter.types):
        return
    wanted = " or ".join(sorted(parameter.types))
    advice = f"in a shell quote it twice, {parameter.name}='\"{value}\"'" if parameter.types == {"str"} else "give one"
    raise UsageError(
        f"Parameter {parameter.name!r} of {function} is {shown(value)}, {_JSON_WORDS[kind]}, and {function} takes"
        f" {wanted}: {advice}."
    )


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _written(argument: ast.arg, default: ast.expr | None) -> Parameter:
    is_none = isinstance(default, ast.Constant) and default.value is None
    types = _types(argument.annotation)
    return Parameter(
        name=argument.arg,
        has_default=default is not None,
        default=default.value if isinstance(default, ast.Constant) else None,
        types=types and types | ({"None"} if is_none else set()),
    )


def _live(parameter: inspect.Parameter) -> Parameter:
    has_default = parameter.default is not parameter.empty
    types = _types(_parsed(_text(parameter.annotation)))
    return Parameter(
        name=parameter.name,
        has_default=has_default,
        default=parameter.default if isinstance(parameter.default, int | float | str) else None,
        types=types and types | ({"None"} if parameter.default is None else set()),
    )


def _text(annotation: Any) -> str:
    """As it would be written in source: a class by its name, a union as it prints itself."""
    if annotation in (int, float, str, bool):
        return str(annotation.__name__)
    return annotation if isinstance(annotation, str) else str(annotation)


def _parsed(text: str) -> ast.expr | None:
    try:
        with ONE_AT_A_TIME:
            return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _types(annotation: ast.expr | None) -> frozenset[str] | None:
    """The plain types that an annotation names; None where it names any other."""
    match annotation:
        case ast.Name(id=name) if name in _FITS:
            return frozenset({name})
        case ast.Constant(value=None):
            return frozenset({"None"})
        case ast.Constant(value=str(text)):
            return _types(_parsed(text))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            either, other = _types(left), _types(right)
            return either | other if either and other else None
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            types = _types(inner)
            return types and types | {"None"}
    return None
