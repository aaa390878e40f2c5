"""A cluster that jobs name and this machine does not reach keeps nobody from looking at the one that was named."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.backends.jobset_remnants import passing_over
from prefect_tpu.infra.errors import PlatformError, PrefectTpuError, UsageError


@pytest.mark.parametrize("error", [UsageError("no such context"), PlatformError("no answer")])
def test_a_place_that_nobody_named_is_passed_over_and_said(
    error: PrefectTpuError, caplog: pytest.LogCaptureFixture
) -> None:
    with passing_over("laptop", "ml", is_extra=True):
        raise error
    assert caplog.messages == [
        f"Jobs are in namespace 'ml' of cluster 'laptop' too, which cannot be looked at from here: {error}"
    ]


def test_a_place_that_was_asked_about_is_never_passed_over() -> None:
    with pytest.raises(PlatformError, match="no answer"), passing_over("training", is_extra=False):
        raise PlatformError("no answer")


def test_our_own_mistakes_are_never_passed_over() -> None:
    with pytest.raises(KeyError), passing_over("laptop", is_extra=True):
        raise KeyError("metadata")
