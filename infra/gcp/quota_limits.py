"""How much does the project allow? Cloud Quotas says it, per quota, as entries for places and families."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS, address_of, credentials_for, word
from prefect_tpu.infra.gcp.quota_table import SERVICE, Quota

FAMILY = "tpu_family"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value of a quota, for these dimensions in these locations; None where Google gives none."""

    dimensions: Mapping[str, str]
    locations: tuple[str, ...]
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What Google says of a quota.

    metric: what is measured, as Cloud Monitoring names it without `/usage`.
    fixed: why no more of it can be asked for; empty where it can.
    """

    metric: str
    entries: tuple[Entry, ...]
    fixed: str = ""


def limit_in(listing: Listing, quota: Quota, location: str) -> float | None:
    """The limit that holds in a region or zone; None where no entry says it.

    An entry without a dimension holds for all its values but those with an entry of their own, so the one with most
    dimensions counts; a family without any entry, not even a common one, has no limit that is known.
    """
    fitting = [entry for entry in listing.entries if _holds(entry, quota, location)]
    # With as many dimensions, one for the place counts more than one for the family.
    ranked = sorted(fitting, key=lambda entry: (len(entry.dimensions), quota.scope in entry.dimensions), reverse=True)
    return ranked[0].value if ranked else None


def locations_of(listing: Listing, region: str) -> tuple[str, ...]:
    """The zones of a region for which there are entries."""
    named = {place for entry in listing.entries for place in (*entry.locations, entry.dimensions.get("zone", ""))}
    return tuple(sorted(place for place in named if place.startswith(f"{region}-")))


def _holds(entry: Entry, quota: Quota, location: str) -> bool:
    asked = {quota.scope: location, **({FAMILY: quota.family.lower()} if quota.family else {})}
    if any(asked.get(name) != value.lower() for name, value in entry.dimensions.items()):
        return False
    return quota.scope in entry.dimensions or location in entry.locations


def ask_listing(project: str, quota: Quota, seconds: float) -> Listing:
    """Ask Google. Raises Google's errors, `NotFound` where it knows no such quota."""
    from google.cloud.cloudquotas_v1 import CloudQuotasClient, GetQuotaInfoRequest

    from prefect_tpu.infra.gcp.google_patience import patience

    with CloudQuotasClient(transport=_transport()) as client:
        name = f"projects/{project}/locations/global/services/{SERVICE}/quotaInfos/{quota.id}"
        return read(client.get_quota_info(GetQuotaInfoRequest(name=name), **patience(seconds)))


def _transport() -> Any:
    from google.cloud.cloudquotas_v1.services.cloud_quotas.transports import CloudQuotasRestTransport

    address = address_of(CLOUD_QUOTAS)
    scheme = "http" if address.is_plain else "https"
    return CloudQuotasRestTransport(host=address.host, credentials=credentials_for(address), url_scheme=scheme)


def read(info: Any) -> Listing:
    """A `QuotaInfo` in our words."""
    eligible = info.quota_increase_eligibility
    why = "" if eligible.is_eligible or not eligible.ineligibility_reason else word(eligible.ineligibility_reason)
    return Listing(
        metric=info.metric,
        entries=tuple(
            Entry(
                dimensions=dict(entry.dimensions),
                locations=tuple(entry.applicable_locations),
                value=_value(entry),
            )
            for entry in info.dimensions_infos
        ),
        fixed="its value is fixed" if info.is_fixed else why,
    )


def _value(entry: Any) -> float | None:
    """Zero is written as details without a value, as everywhere in Google's JSON; no details say nothing."""
    if "details" not in entry:
        return None
    return inf if entry.details.value < 0 else float(entry.details.value)
