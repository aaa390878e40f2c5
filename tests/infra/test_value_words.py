"""A number of NumPy's is written as the number that it is, wherever it stands."""

from __future__ import annotations

import numpy as np
import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import check_count, shown
from prefect_tpu.infra.sweep.space import Choice
from prefect_tpu.infra.value_words import in_words

ITSELF: list[object] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.float64(0.5), "0.5"),
        (np.str_("a"), "'a'"),
        (np.int64(3), "3, a numpy int64"),
        (np.float32(0.5), "0.5, a numpy float32"),
        ({"loss": np.float64(0.5), "n": (np.int64(3), [np.bool_(True)])}, "{'loss': 0.5, 'n': (3, [True])}"),
        (np.array([1, 2]), "array([1, 2])"),
        (0.5, "0.5"),
        (None, "None"),
        (ITSELF, "[[...]]"),
    ],
)
def test_it_is_plain(value: object, words: str) -> None:
    assert in_words(value) == words


def test_messages_have_it_so() -> None:
    assert shown({"error": np.float64(0.1)}) == "{'error': 0.1}"
    assert str(Choice(values=(np.float64(0.1), np.float64(0.2)))) == "one of 0.1, 0.2"
    with pytest.raises(UsageError, match=r"max_failures is 0\.5: give a whole number"):
        check_count("max_failures", np.float64(0.5))
