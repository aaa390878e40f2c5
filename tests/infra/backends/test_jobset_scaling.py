"""What the autoscaler and a provisioning request say of capacity: a row for each way of saying that there is none."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.backends.jobset_facts import EventFacts, Said
from prefect_tpu.infra.backends.jobset_scaling import REASONS, REQUEST_TEXTS, TEXTS, is_dry, is_request_dry, newest

ROWS = {
    "out of resources": "Node scale up in zones us-east5-b associated with this pod failed: GCE out of resources.",
    "quota exceeded": "Node scale up in zones us-east5-b associated with this pod failed: GCE quota exceeded.",
    "failed to appear in time": 'Node scale up failed: Some nodes in node group ["a"] failed to appear in time.',
    "scale.up.error.out.of.resources": "failed: scale.up.error.out.of.resources",
    "scale.up.error.quota.exceeded": "failed: scale.up.error.quota.exceeded",
    "scale.up.error.ip.space.exhausted": "failed: scale.up.error.ip.space.exhausted",
    "no.scale.up": "failed: no.scale.up.nap.pod.tpu.no.limit.defined",
    "IP space exhausted": "Node scale up in zones us-east5-b associated with this pod failed: IP space exhausted.",
}
OF_THE_API = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "GCE_STOCKOUT: us-east5-b",
    "failed for lack of capacity",
    "The zone does not have enough resources available to fulfill the request",
    "Quota 'TPUS_PER_TPU_FAMILY' exceeded. Limit: 16.0 in region us-east5.",
    "Quota 'TPUS_PER_TPU_FAMILY' exceeded. Limit: 0.0 in region us-east5.",
    "GCE_QUOTA_EXCEEDED",
)


def failed(message: str) -> Said:
    return Said(reason="FailedScaleUp", message=message)


@pytest.mark.parametrize("text", TEXTS)
def test_the_autoscalers_own_words(text: str) -> None:
    assert text in ROWS[text] and is_dry(failed(ROWS[text]))


@pytest.mark.parametrize("message", OF_THE_API)
def test_the_words_of_the_api_that_it_asks(message: str) -> None:
    assert is_dry(failed(message)) and is_request_dry(message)


def test_that_no_pool_may_grow_is_told_by_the_reason_alone() -> None:
    assert is_dry(Said(reason="NotTriggerScaleUp", message="no scale-up: 1 max node group size reached"))
    assert is_dry(Said(reason="NotTriggerScaleUp"))


@pytest.mark.parametrize("reason", ["TriggeredScaleUp", "FailedScheduling", "Pulling"])
def test_other_events_say_nothing_of_capacity(reason: str) -> None:
    assert not is_dry(Said(reason=reason, message="GCE out of resources"))


def test_what_may_pass_by_itself_is_no_lack_of_capacity() -> None:
    assert not is_dry(failed("Internal error")) and not is_dry(failed("service account deleted"))


@pytest.mark.parametrize("reason", REASONS)
def test_reasons_of_a_provisioning_request(reason: str) -> None:
    assert is_request_dry(f"{reason}: it was said so") and is_request_dry(reason)
    assert not is_request_dry(f"Not{reason}")


@pytest.mark.parametrize("text", REQUEST_TEXTS)
def test_words_of_a_provisioning_request(text: str) -> None:
    assert is_request_dry(f"Waiting for resources. Currently there are {text}.")


def test_a_queue_that_is_full_says_nothing_of_capacity() -> None:
    said = "insufficient unused quota for google.com/tpu in flavor f, 16 more needed"
    assert not is_request_dry(said) and not is_request_dry("")


def test_what_was_said_last_counts() -> None:
    said = (("FailedScaleUp", 2.0), ("TriggeredScaleUp", 3.0), ("NotTriggerScaleUp", 1.0), ("Pulled", 4.0))
    events = [EventFacts(kind="Pod", name="p", said=Said(reason=reason), at=at) for reason, at in said]
    assert newest(events) == Said(reason="TriggeredScaleUp")
    assert newest(events[3:]) is None and newest([]) is None
