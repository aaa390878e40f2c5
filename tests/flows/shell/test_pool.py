"""What is typed of a pool becomes the defaults of its runs."""

from __future__ import annotations

import pytest

from prefect_tpu.flows.shell.pool import PoolOptions
from prefect_tpu.infra.errors import UsageError


def test_only_what_was_said_becomes_a_default() -> None:
    assert PoolOptions(name="tpu").defaults == {}
    said = PoolOptions(name="tpu", backend="jobset", image="trainer:1", cluster="block:training", output="gs://b/jobs")
    assert said.defaults == {
        "backend": "jobset", "image": "trainer:1", "cluster": "block:training", "output": "gs://b/jobs",
    }  # fmt: skip


def test_any_variable_may_have_a_default_as_json_or_text() -> None:
    said = PoolOptions(name="tpu", default=["max_preemptions=3", 'zones=["us-east5-b"]', "queue=tpus"])
    assert said.defaults == {"max_preemptions": 3, "zones": ["us-east5-b"], "queue": "tpus"}


@pytest.mark.parametrize("word", ["max_preemptions", "=3", "a b=3"])
def test_what_is_no_default_is_refused_with_how_it_is_written(word: str) -> None:
    with pytest.raises(UsageError, match="--default .* is not name=value"):
        _ = PoolOptions(name="tpu", default=[word]).defaults
