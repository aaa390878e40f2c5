"""Task: write down what became of a candidate, and show how the model came along."""

from __future__ import annotations

import time
from collections.abc import Mapping

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.models.judging import Rule, verdict
from prefect_tpu.infra.models.records import Candidate, Entry, Version
from prefect_tpu.infra.models.registry import Registry, Standing
from prefect_tpu.infra.models.story import WORDS, as_markdown
from prefect_tpu.tasks.failing import failing_in_words


@task(name="promote_model", task_run_name="promote_model", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def promote_model(
    registry: Registry,
    standing: Standing,
    candidate: Candidate,
    version: Version,
    rival: Mapping[str, float] | None,
    rule: Rule,
) -> Entry | None:
    """The record that ends the candidate; None where the history has gone on since it was looked at."""
    entry = verdict(standing, candidate, version, rival, rule, time.time())
    if not registry.add(entry):
        return None
    registry.point()
    get_run_logger().info("Candidate %d of model %s %s", candidate.number, registry.model, in_words(entry))
    _show(registry)
    return entry


def _show(registry: Registry) -> None:
    try:
        create_markdown_artifact(
            key=f"model-{registry.model}", markdown=as_markdown(registry), description=f"Model {registry.model}"
        )
    except Exception as exc:  # whatever is wrong with a server or an old record: what was decided stays
        get_run_logger().warning("The history of model %s could not be shown: %s", registry.model, exc)


def in_words(entry: Entry) -> str:
    """What became of a candidate, after its name."""
    return f"was {WORDS[entry.became]}: {entry.reason}."
