"""What is known of all offers, and when a job is given up for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
from scripted import Scripted

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.allowed import AT_ONCE, ask_all, refusal, told
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.quota import Fit, Ruling, cannot_tell
from prefect_tpu.infra.state import Offer

FITS = Ruling(fit=Fit.FITS, said="16 of 32")
FULL = Ruling(fit=Fit.DOES_NOT, said="in use")
NEVER = Ruling(fit=Fit.DOES_NOT, said="needs 16, the limit is 0", advice="Ask here.", is_for_good=True)
UNKNOWN = cannot_tell("nobody says")
A, B = Offer(accelerator="v6e-16"), Offer(accelerator="v5e-16")


class Asked(Scripted):
    """Says of each zone what it was told, once as many ask as may."""

    def __init__(self, says: Mapping[str | None, tuple[Ruling, ...]], together: int = 1) -> None:
        super().__init__({})
        self._says, self._together = says, together
        self._asking, self.most = 0, 0

    async def limits(self, job: SliceJob, offer: Offer, output: str) -> tuple[Ruling, ...]:
        self._asking += 1
        self.most = max(self.most, self._asking)
        while self.most < self._together:
            await anyio.lowlevel.checkpoint()
        self._asking -= 1
        return self._says[offer.zone]


def test_offers_are_asked_about_side_by_side_and_not_too_many(make_job: Callable[..., SliceJob]) -> None:
    zones = tuple(f"us-east5-{letter}" for letter in "abcdefghijkl")
    backend = Asked(dict.fromkeys(zones, (FITS,)), together=AT_ONCE)
    job = make_job(pods=PodSettings(image="python:3.12", zones=zones), backend="jobset")
    found = anyio.run(ask_all, backend, job, "gs://bucket/jobs")
    assert [offer.zone for offer in found] == list(zones) and set(found.values()) == {(FITS,)}
    assert backend.most == AT_ONCE


def test_every_ruling_is_told_with_its_offer() -> None:
    assert told({A: (FITS, NEVER), B: (UNKNOWN,)}) == (
        "v6e-16 fits: 16 of 32.",
        "v6e-16 does not fit: needs 16, the limit is 0. Ask here.",
        "v5e-16 cannot tell: nobody says.",
    )


def test_a_job_is_given_up_only_where_every_offer_surely_does_not_fit() -> None:
    failed = refusal({A: (FITS, NEVER), B: (NEVER,)})
    assert failed is not None and failed.kind is FailureKind.NO_QUOTA and not failed.retryable
    assert failed.message == (
        "No offer fits. v6e-16 does not fit: needs 16, the limit is 0. Ask here. v5e-16 does not fit: needs 16, the"
        " limit is 0. Ask here."
    )
    assert len(failed.evidence) == 2
    for other in (FITS, FULL, UNKNOWN):
        assert refusal({A: (NEVER,), B: (other,)}) is None
    assert refusal({A: (NEVER,), B: ()}) is None
