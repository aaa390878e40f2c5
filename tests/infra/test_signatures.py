"""Parameters that a function cannot take are found before it is sent, by its source and by itself alike."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.signatures import check_params, in_source, of_function

PLAIN = "def main(steps: int, seed=0, *, rate: 'float' = 0.1): pass"
TYPED = """
from typing import Optional
def main(
    whole: int = 0, real: float = 0.0, text: str = "", yes: bool = False, absent: int = None,
    either: int | str = 0, maybe: Optional[float] = 1.0, many: list[int] = (), free=0
): pass
"""
LEFT_ALONE = {
    "takes any name": "def main(**options): pass",
    "is decorated": "from functools import cache\n@cache\ndef main(): pass",
    "is bound again": "def main(): pass\nmain = 1",
    "is defined twice": "def main(): pass\ndef main(a): pass",
    "is imported": "from os import getcwd as main",
}


def live(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names["main"]  # type: ignore[no-any-return]


@pytest.fixture(params=["source", "function"])
def check(request: pytest.FixtureRequest) -> Callable[[str, dict[str, Any]], None]:
    """Both ways to the same answer."""
    if request.param == "source":
        return lambda source, params: check_params(in_source(ast.parse(source), "main"), params)
    return lambda source, params: check_params(of_function(live(source)), params)


@pytest.mark.parametrize(
    ("source", "params"),
    [
        (PLAIN, {"steps": 1}),
        (PLAIN, {"steps": 1, "seed": [], "rate": 1}),
        (TYPED, {}),
        (TYPED, {"whole": 2, "real": 3, "text": "a", "yes": True, "absent": None, "either": "b", "maybe": None}),
        (TYPED, {"many": "unchecked", "free": {}}),
        ("def main(a=0, /, b=1, *c): pass", {"b": 2}),
        ("def main(**options): pass", {"anything": 1}),
        ("def main(a: 'not a type at all (' = 0): pass", {"a": "x"}),
    ],
)
def test_what_a_function_takes_passes(check: Any, source: str, params: dict[str, Any]) -> None:
    check(source, params)


@pytest.mark.parametrize(
    ("source", "params", "says"),
    [
        (PLAIN, {"steps": 1, "step": 1}, "main has no parameter 'step'. It has: steps, seed, rate."
                                         " Did you mean 'steps'?"),
        (PLAIN, {"steps": 1, "zzz": 1}, "main has no parameter 'zzz'. It has: steps, seed, rate."),
        ("def main(): pass", {"a": 1}, "main has no parameter 'a'. It has none: leave it out."),
        (PLAIN, {}, "main needs 'steps', which was not given. It has: steps, seed, rate."
                    " Give a value, or write a default into its definition."),
        ("def main(*, a, b): pass", {}, "main needs 'a', 'b', which were not given. It has: a, b."
                                        " Give values, or write defaults into its definition."),
        ("def main(a, /, b=1): pass", {"b": 1}, "main takes 'a' by position only, and parameters are given by name:"
                                                " remove the '/' from its definition."),
        ("def main(a=0, /): pass", {"a": 1}, "main takes 'a' by position only, and parameters are given by name:"
                                             " remove the '/' from its definition."),
        (PLAIN, {"steps": "ten"}, "Parameter 'steps' of main is 'ten', text, and main takes int: give one."),
        (PLAIN, {"steps": 1.5}, "Parameter 'steps' of main is 1.5, a number with a point, and main takes int:"
                                " give one."),
        (PLAIN, {"steps": True}, "Parameter 'steps' of main is True, true or false, and main takes int: give one."),
        (PLAIN, {"steps": 1, "rate": None}, "Parameter 'rate' of main is None, null, and main takes float: give one."),
        (TYPED, {"text": 7}, "Parameter 'text' of main is 7, a whole number, and main takes str:"
                             " in a shell quote it twice, text='\"7\"'."),
        (TYPED, {"either": {}}, "Parameter 'either' of main is {}, an object, and main takes int or str: give one."),
        (TYPED, {"maybe": "x"}, "Parameter 'maybe' of main is 'x', text, and main takes None or float: give one."),
        (TYPED, {"whole": "x" * 99}, "Parameter 'whole' of main is '" + "x" * 59 + "…, text, and main takes int:"
                                     " give one."),
    ],
)  # fmt: skip
def test_what_it_does_not_take_is_named(check: Any, source: str, params: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(source, params)
    assert str(caught.value) == says


@pytest.mark.parametrize("source", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_only_running_would_tell_is_left_alone(source: str) -> None:
    check_params(in_source(ast.parse(source), "main"), {"unknown": 1})


def test_what_has_no_signature_is_left_alone() -> None:
    check_params(of_function(dict), {"unknown": 1})
