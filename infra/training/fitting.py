"""Does a checkpoint fit the state that it is to fill? Leaf by leaf, by shapes and types; nothing is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import UsageError

Path = tuple[str, ...]  # of a leaf in its state
Only = str | Sequence[str] | Callable[[str], bool]
SHOWN = 8  # leaves that a message names
_OWN_KIND = "float8_e8m0fnu"  # a scale: TensorStore makes other numbers of it in any other type, and of those in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """What an array, or a number as an array of no dimension, looks like. dtype: of NumPy."""

    shape: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def spelled(path: Path) -> str:
    """A leaf's name for people and for `only`: `params/dense/0`."""
    return "/".join(path) or "the state itself"


def chooser(only: Only | None) -> Callable[[Path], bool]:
    """Which leaves come from the checkpoint: all, those with or below a name of `only`, or those it says yes to."""
    if only is None:
        return lambda path: True
    if callable(only):
        says = only
        return lambda path: bool(says("/".join(path)))
    names = [tuple(name.strip("/").split("/")) for name in names_of(only)]
    return lambda path: any(path[: len(name)] == name for name in names)


def names_of(only: Any) -> list[str]:
    """The names that `only` says. Raises `UsageError` for what is none."""
    names = [only] if isinstance(only, str) else list(only) if isinstance(only, Iterable) else [only]
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"restore(only={only!r}): give the name of a leaf, a list of names, or a function of a name.")
    return names


def check_chosen(chosen: Sequence[Path], state: Sequence[Path], only: Only | None) -> None:
    """Raise `UsageError` where `only` names no leaf of the state, or one of its names does not."""
    if only is None:
        return
    names = [] if callable(only) or isinstance(only, str) else names_of(only)
    idle = [name for name in names if not any(chooser(name)(path) for path in chosen)]
    if not chosen or idle:
        what = f"{idle[0]!r} of only" if idle else f"only={only!r}"
        raise UsageError(
            f"restore(): {what} names no leaf of the state. It has {_some([spelled(path) for path in state])}."
        )


def misfits(found: Mapping[Path, Leaf], wanted: Mapping[Path, Leaf], *, all_of_it: bool) -> list[str]:
    """Each leaf that does not fit, with what was found and what is wanted.

    all_of_it: leaves of the checkpoint that nobody wants are misfits too.
    """
    return list(_misfits(found, wanted, all_of_it))


def _misfits(found: Mapping[Path, Leaf], wanted: Mapping[Path, Leaf], all_of_it: bool) -> Iterator[str]:
    for path, want in wanted.items():
        have = found.get(path)
        if have is None:
            yield f"{spelled(path)}: the state has {want}, the checkpoint nothing"
        elif have.shape != want.shape:
            yield f"{spelled(path)}: the checkpoint has {have}, the state {want}"
        elif not _casts(have, want, "same_kind"):
            yield f"{spelled(path)}: the checkpoint has {have}, which does not become {want}"
    for path, have in found.items() if all_of_it else ():
        if path not in wanted:
            yield f"{spelled(path)}: the checkpoint has {have}, the state nothing"


def losses(found: Mapping[Path, Leaf], wanted: Mapping[Path, Leaf]) -> list[str]:
    """Each leaf whose values may not all survive the type that the state has."""
    return [
        f"{spelled(path)}: {found[path].dtype} becomes {want.dtype}"
        for path, want in wanted.items()
        if path in found and not _casts(found[path], want, "safe")
    ]


def shortened(lines: Sequence[str]) -> str:
    """The first lines, and how many more there are."""
    more = len(lines) - SHOWN
    return "; ".join(lines[:SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and more" if len(names) > SHOWN else "")


def _casts(have: Leaf, want: Leaf, how: Any) -> bool:
    import numpy as np

    if have.dtype != want.dtype and _OWN_KIND in (have.dtype.name, want.dtype.name):
        return False
    return bool(np.can_cast(have.dtype, want.dtype, how))
