"""What of a program's end travels back, and what is said where it cannot."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.host.values import encode, keep_exception, keep_value

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
@settings(max_examples=50)
def test_what_survives_json_travels_as_json(value: object) -> None:
    encoding, raw = encode(value)
    assert encoding == "json"
    assert repr(json.loads(raw)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {1: "a"},
        {"a": (1,)},
        [{1, 2}],
        b"bytes",
        1 + 2j,
        {None: 1},
        {True: 1},
        {"a": b""},
    ],
)
def test_what_json_would_change_is_pickled(value: object) -> None:
    encoding, raw = encode(value)
    assert encoding == "cloudpickle"
    assert cloudpickle.loads(raw) == value


def test_an_integer_too_long_for_text_is_pickled() -> None:
    encoding, raw = encode(10**5000)
    assert encoding == "cloudpickle"
    assert cloudpickle.loads(raw) == 10**5000


def test_not_a_number_comes_back_as_such_and_can_be_shown() -> None:
    encoding, raw = encode({"loss": float("nan"), "best": [-math.inf]})
    assert encoding == "json"
    assert math.isnan(json.loads(raw)["loss"])
    assert json.loads(raw, parse_constant=str) == {"loss": "NaN", "best": ["-Infinity"]}


def test_a_value_that_cannot_travel_is_an_error_that_says_what_can() -> None:
    with pytest.raises(TypeError, match="returned a generator, which cannot be sent back .* return numbers, text"):
        encode(number for number in range(3))


def test_a_value_is_kept_with_its_hash(tmp_path: Path) -> None:
    info = keep_value([1, 2], tmp_path / "value")
    raw = (tmp_path / "value").read_bytes()
    assert info == {"encoding": "json", "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    assert raw == b"[1, 2]"


def test_a_value_that_is_too_large_is_an_error_that_names_both_sizes(tmp_path: Path) -> None:
    message = r"returned a bytes of 3 MiB, and a result may have 2 MiB; save what is large as a checkpoint"
    with pytest.raises(ValueError, match=message):
        keep_value(b"x" * (3 * 2**20), tmp_path / "value", largest=2 * 2**20)
    assert not (tmp_path / "value").exists()


class Picky(Exception):
    """Pickles, and cannot be made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def failed(error: BaseException) -> BaseException:
    """The error as it was raised: with its frames, and after another one."""
    held = bytearray(2**21)
    try:
        try:
            raise KeyError(len(held))
        except KeyError as first:
            raise error from first
    except BaseException as exc:
        return exc


def test_an_exception_travels_without_its_frames(tmp_path: Path) -> None:
    error = failed(ValueError("shapes differ", 3))
    error.add_note("while loading")
    info = keep_exception(error, tmp_path / "exception")
    raw = (tmp_path / "exception").read_bytes()
    assert info == {"encoding": "cloudpickle", "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    found = cloudpickle.loads(raw)
    assert (type(found), found.args, found.__notes__) == (ValueError, ("shapes differ", 3), ["while loading"])
    assert len(raw) < 2**20


def unpicklable() -> BaseException:
    error = ValueError("holds a generator")
    error.extra = (number for number in range(3))  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    "error",
    [unpicklable(), Picky("a", "b"), ValueError("x" * 2**20), SystemExit(3), KeyboardInterrupt()],
    ids=["unpicklable", "not to be made again", "too large", "a way to leave", "an interrupt"],
)
def test_an_exception_that_cannot_travel_is_not_kept(tmp_path: Path, error: Any) -> None:
    assert keep_exception(failed(error), tmp_path / "exception") is None
    assert list(tmp_path.iterdir()) == []
