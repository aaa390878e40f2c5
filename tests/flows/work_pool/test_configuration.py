"""What comes out of the form: what cannot be used is kept to be told, and what is of pods is told apart."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from asked_runs import RUN, configured
from prefect.client.orchestration import PrefectClient
from pydantic import ValidationError

from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.template import base_job_template


def test_a_value_that_is_none_is_kept_to_be_told_and_the_rest_counts() -> None:
    made = configured(slices="two", grace=-1, accelerator="v6e-16")
    assert made.refusal is not None and "slices is 'two'" in made.refusal and "grace is -1" in made.refusal
    assert (made.accelerator, made.slices) == ("v6e-16", 1)
    assert configured(slices="2").refusal is None


def test_what_has_parts_is_not_shown_in_a_refusal() -> None:
    refusal = configured(secrets={"TOKEN": ["a-token-typed-by-mistake"]}).refusal
    assert refusal is not None and "secrets is of type dict" in refusal and "typed" not in refusal


def from_pool(template: dict[str, Any], said: dict[str, Any]) -> TpuSliceConfiguration:
    """As Prefect makes it; nothing is asked of a server, for nothing refers to a block."""

    async def make() -> TpuSliceConfiguration:
        nobody = PrefectClient("http://127.0.0.1:9/api")
        return await TpuSliceConfiguration.from_template_and_values(template, said, client=nobody)

    return anyio.run(make)


@pytest.mark.parametrize(
    ("said", "refusal", "ignored"),
    [
        ({"acelerator": "v6e-16"}, "acelerator is no variable of the work pool (Did you mean 'accelerator'?)", ()),
        ({"of_another_pool": 1}, None, ("of_another_pool",)),
        ({"env.WORD": "x", "accelerator": "v6e-16"}, None, ()),
        (
            {"command": "run {{ prefect.blocks.secret.x }}"},
            "command may not come from a Secret block, which is kept secret in env alone",
            (),
        ),
    ],
)
def test_a_misspelt_variable_is_told_and_not_dropped(
    said: dict[str, Any], refusal: str | None, ignored: tuple[str, ...]
) -> None:
    made = from_pool(base_job_template(), said)
    assert (made.refusal, made.ignored) == (refusal, ignored)


def test_a_variable_that_an_older_pool_lacks_says_how_to_bring_it_up_to_date() -> None:
    template = base_job_template()
    del template["variables"]["properties"]["grace"]
    made = from_pool(template, {"grace": 5})
    assert made.refusal is not None and "prefect-tpu pool update" in made.refusal


def test_what_is_no_configuration_at_all_is_refused() -> None:
    with pytest.raises(ValidationError):
        TpuSliceConfiguration.model_validate("text")


def test_only_what_was_said_is_said_of_pods() -> None:
    assert configured().said_of_pods == {}
    said = configured(image="trainer:1", ttl=60, labels={"team": "vision"}, zones=["us-east5-b"]).said_of_pods
    assert said == {"image": "trainer:1", "ttl": 60, "labels": {"team": "vision"}, "zones": ["us-east5-b"]}


def test_fields_of_pathways_and_its_further_settings_become_one() -> None:
    made = configured(pathways_jax="0.10.2", pathways_elastic_slices=1, pathways={"proxy_memory": "8Gi", "jax": "1"})
    assert made.said_of_pods["pathways"] == {"proxy_memory": "8Gi", "jax": "0.10.2", "elastic_slices": 1}


def test_prefect_s_labels_are_told_without_being_labels() -> None:
    made = configured(name="mine")
    assert made.given_by_prefect == {
        "prefect.io/flow-run-id": str(RUN),
        "prefect.io/flow-run-name": "eager-otter",
        "prefect.io/name": "mine",
    }


def test_other_runners_see_that_it_is_a_flow_run() -> None:
    assert configured().is_using_a_runner
