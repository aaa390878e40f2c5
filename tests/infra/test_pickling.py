"""A function travels with its arguments, or what keeps it at home is named."""

from __future__ import annotations

import threading
import traceback
from functools import partial, wraps
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.pickling import MOST_BYTES, Arguments, check_callable, name_of, pickles

LOCK = threading.Lock()
LARGE = MOST_BYTES + 2**20


def add(a: Any, b: Any = 1, *rest: Any, c: Any = 0) -> Any:
    return a + b + sum(rest) + c


def local(value: Any) -> Any:
    def inner() -> Any:
        return value

    return inner


class Model:
    def __init__(self, size: Any = 1) -> None:
        self.size = size

    def fit(self, steps: int = 2) -> Any:
        return self.size * steps

    def __call__(self) -> Any:
        return self.size

    @classmethod
    def make(cls) -> int:
        return 5

    @staticmethod
    def count() -> int:
        return 6


@wraps(add)
def decorated(*args: Any, **kwargs: Any) -> Any:
    return add(*args, **kwargs) * 10


def called(function: Any, arguments: Arguments | None = None) -> Any:
    """What a host makes of it."""
    sent = pickles(function, arguments)
    args, kwargs = cloudpickle.loads(sent[Payload.ARGUMENTS]) if arguments else ((), {})
    return cloudpickle.loads(sent[Payload.FUNCTION])(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "value"),
    [
        (add, (1,), {}, 2),
        (add, (1, 2, 3), {"c": 4}, 10),
        (local(7), (), {}, 7),
        (lambda x: x * 2, ("ab",), {}, "abab"),
        (partial(add, 1, c=3), (2,), {}, 6),
        (Model(4).fit, (3,), {}, 12),
        (Model(4), (), {}, 4),
        (Model.make, (), {}, 5),
        (Model.count, (), {}, 6),
        (decorated, (1, 1), {}, 20),
        (len, ([1, 2],), {}, 2),
        (np.sum, (np.arange(4),), {}, 6),
        (lambda model: model.fit(), (Model(2),), {}, 4),
    ],
)
def test_what_is_like_a_function_travels(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
) -> None:
    check_callable(function)
    assert called(function, Arguments(args=args, kwargs=kwargs)) == value


async def later() -> None: ...


async def stream() -> Any:
    yield 1


def generate() -> Any:
    yield 1


class Later:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (later, r"'later' is asynchronous: .*asyncio\.run\(later"),
        (stream, "'stream' is asynchronous"),
        (Later(), "'Later' is asynchronous"),
        (partial(later), "'later' is asynchronous"),
        (generate, "'generate' is a generator, .*return a list"),
        (partial(generate), "'generate' is a generator"),
        (generate(), "is a generator, made by a call: give the function itself"),
        (stream(), "is a async_generator, made by a call"),
        (Model, "'Model' is a class: give a function"),
        (Model.__dict__["make"], "cannot be called: give a function"),
        (5, "The program is 5, which cannot be called"),
        (None, "The program is None"),
    ],
)
def test_what_is_no_function_is_refused(function: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_callable(function)


def test_a_coroutine_is_refused() -> None:
    coroutine = later()
    with pytest.raises(UsageError, match="is a coroutine, made by a call"):
        check_callable(coroutine)
    coroutine.close()


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((LOCK,), {}, r"Argument 'a' of 'add' \(a _thread\.lock\) cannot be sent: cannot pickle .*object\."),
        ((1, 2, 3, LOCK), {}, r"Argument 'rest' of 'add' \(rest\[1\] is a _thread\.lock\)"),
        ((1,), {"c": {"k": LOCK}}, r"Argument 'c' of 'add' \(c\['k'\] is a _thread\.lock\)"),
        ((generate(),), {}, r"Argument 'a' of 'add' \(a generator\).*inside the function instead\."),
    ],
)  # fmt: skip
def test_an_argument_that_cannot_be_sent_is_named(args: tuple[Any, ...], kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        pickles(add, Arguments(args=args, kwargs=kwargs))


def test_an_argument_without_a_signature_is_named_by_its_place() -> None:
    with pytest.raises(UsageError, match=r"Argument '2' of 'max' \(a _thread\.lock\)"):
        pickles(max, Arguments(args=(1, LOCK)))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: LOCK, r"'<lambda>' cannot be sent: it uses 'LOCK' \(a _thread\.lock\): cannot pickle"),
        (local({"k": LOCK}), r"'inner' cannot be sent: it uses 'value' \(value\['k'\] is a _thread\.lock\)"),
        (Model(LOCK).fit, r"'Model\.fit' cannot be sent: it uses 'self' \(self\.size is a _thread\.lock\)"),
        (partial(add, LOCK), r"'add' cannot be sent: it uses 'argument 1' \(a _thread\.lock\)"),
    ],
)
def test_what_a_function_uses_and_cannot_be_sent_is_named(function: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        pickles(function, None)


def test_what_is_too_large_is_named_with_its_size_and_where_it_belongs() -> None:
    big, small = np.zeros(LARGE, dtype=np.uint8), "small"
    with pytest.raises(UsageError, match=r"arguments of 'add' are 65 MiB, at most 64 MiB .*'b' is 65 MiB.*in `data`"):
        pickles(add, Arguments(args=(small, big)))
    with pytest.raises(UsageError, match=r"'inner' is 65 MiB with what it uses, .*'value' is 65 MiB of it"):
        pickles(local(big), None)


class Careful:
    """Leaves its lock at home."""

    def __init__(self, size: int) -> None:
        self.lock, self.weights = threading.Lock(), np.zeros(size, np.uint8)

    def __getstate__(self) -> Any:
        return {"weights": self.weights}

    def __call__(self) -> int:
        return int(self.weights.size)


def test_what_stays_at_home_does_not_hide_what_is_too_large() -> None:
    assert called(Careful(3)) == 3
    with pytest.raises(UsageError, match=r"'Careful' is 65 MiB with what it uses.*'weights' is 65 MiB of it"):
        pickles(Careful(LARGE), None)


def test_code_keeps_the_name_of_its_file_but_not_of_its_folder() -> None:
    with pytest.raises(TypeError) as caught:
        called(lambda: 1 + "a")  # type: ignore[operator]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == Path(__file__).name


def test_code_of_a_cell_has_no_file() -> None:
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def cell(): raise ValueError", "/tmp/ipykernel_12/345.py", "exec"), made)
    with pytest.raises(ValueError) as caught:
        called(made["cell"])
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == "<cell>"


def test_people_s_name_of_a_function() -> None:
    names = [name_of(function) for function in (add, local(1), partial(partial(add)), Model(1), Model(1).fit)]
    assert names == ["add", "inner", "add", "Model", "Model.fit"]
