"""What of a `state_dict` does PyTorch store by name, and what in one piece?

Its distributed checkpoint takes dicts and lists apart, down to the tensors. On the way it makes text of all keys of a
dict, so the milestones of a `MultiStepLR` would come back as others; and a dict that has grown has names that a new
program lacks. So only what leads to a tensor is taken apart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that is stored as it is, as PyTorch pickles it."""

    value: Any


def taken(found: Any) -> Any:
    """A `state_dict` as it is stored; its first names stay, so that one of another object is known by them."""
    return _each(found, _taken) if _has_names(found) else Piece(found)


def given_back(stored: Any) -> Any:
    """What `taken` was given."""
    if isinstance(stored, Piece):
        return stored.value
    return _each(stored, given_back) if isinstance(stored, dict | list) else stored


def _taken(value: Any) -> Any:
    if not isinstance(value, dict | list | tuple):
        return value
    is_a_way = _has_tensor(value) and (isinstance(value, list) or _has_names(value))
    return _each(value, _taken) if is_a_way else Piece(value)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy, of the same type, with each part changed. An `OrderedDict` of a module has attributes that count."""
    made = copy.copy(value)
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        made[key] = change(part)
    return made


def _has_names(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _has_tensor(value: Any) -> bool:
    import torch

    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, torch.Tensor) or any(map(_has_tensor, parts))
