"""How is a value written in a message? As Python writes it, and a number of NumPy's as the number that it is.

NumPy writes `np.float64(0.5)`, which says where a number was made, and helps nobody who reads of it.
"""

from __future__ import annotations

from typing import Any

_OF_ARRAYS = frozenset({"numpy", "ml_dtypes"})  # packages whose numbers know by themselves what they are in Python


def in_words(value: object) -> str:
    """The value, with plain numbers also where it is a list, a tuple or a dictionary of them. Of a number that is none
    of Python's, as `3, a numpy int64`, the kind is told too: it may be what is wrong with it.
    """
    try:
        text = repr(_plain(value))
    except RecursionError:  # it holds itself
        return repr(value)
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        return "(too long to show)"
    is_pythons = isinstance(value, bool | int | float | complex | str | bytes)
    return text if is_pythons or not _is_one_number(value) else f"{text}, a {_package(value)} {type(value).__name__}"


def _plain(value: Any) -> Any:
    if type(value) is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value.item() if _is_one_number(value) else value


def _is_one_number(value: object) -> bool:
    return _package(value) in _OF_ARRAYS and getattr(value, "shape", None) == ()


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]
