"""The public face says one thing: `__all__`, `dir()` and the type checker's list are the same names."""

from __future__ import annotations

import ast
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import prefect_tpu

LAZY = [name for name in prefect_tpu.__all__ if name != "__version__"]


def names_for_type_checkers() -> dict[str, str]:
    """Name → module, as the `if TYPE_CHECKING:` block of the face imports them."""
    assert prefect_tpu.__file__ is not None
    tree = ast.parse(Path(prefect_tpu.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


def test_exported_names_equal_all() -> None:
    assert dir(prefect_tpu) == sorted(prefect_tpu.__all__)
    assert len(prefect_tpu.__all__) == len(set(prefect_tpu.__all__))


def test_type_checkers_see_the_same_names_in_the_same_homes() -> None:
    assert names_for_type_checkers() == prefect_tpu._HOME


@pytest.mark.parametrize("name", LAZY)
def test_every_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(prefect_tpu, name)
    assert value.__name__ == name
    assert value.__doc__


def test_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match="'tarin'.*train"):
        prefect_tpu.tarin  # noqa: B018 - the access is what is tried


def test_version_is_the_distribution_s() -> None:
    assert prefect_tpu.__version__ == version("prefect-tpu")


def test_prefect_collections_name_real_modules() -> None:
    ours = [point for point in entry_points(group="prefect.collections") if point.value.startswith("prefect_tpu")]
    assert ours
    for point in ours:
        assert point.load().__file__, f"{point.name} names a bare namespace, which registers nothing"
