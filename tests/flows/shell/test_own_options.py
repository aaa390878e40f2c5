"""An option that `run` does not know is answered with where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fit.py:main", "--steps", "3"], "--steps. A parameter of the function is written --param steps=VALUE."),
        (["-a", "cpu", "pkg.fit:main", "--batch-size=3"], "written --param batch_size=VALUE."),
        (["whoami.py", "--epochs", "3"], "--epochs. One of the program's own is written after '--': … -- --epochs"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["run", "render"])
def test_the_programs_own(shell: Callable[..., Any], command: str, words: list[str], says: str) -> None:
    refused = shell(command, *words, "--json")
    assert refused.status == 2 and says in refused.json["error"]


@pytest.mark.parametrize("words", [["fit.py:main", "--acelerator", "cpu"], ["whoami.py", "-z"]])
def test_a_slip_in_one_of_ours(shell: Callable[..., Any], words: list[str]) -> None:
    refused = shell("run", *words, "--json")
    assert refused.status == 2 and "written" not in refused.json["error"]


def test_the_programs_own_after_the_dashes_are_none_of_ours(shell: Callable[..., Any]) -> None:
    assert shell("render", "sh", "--json", "--", "--epochs", "3").json["program"]["arguments"] == ["--epochs", "3"]
