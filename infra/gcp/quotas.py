"""Does Google Cloud allow a slice? Limits of Cloud Quotas, usage of Cloud Monitoring, told per quota.

Nothing here raises for what Google answers, and nothing waits for long: what is not told cannot be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TypeVar

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS, MONITORING, GoogleApi, answered
from prefect_tpu.infra.gcp.quota_limits import FAMILY, Listing, ask_listing, limit_in, locations_of
from prefect_tpu.infra.gcp.quota_table import PAGE, SERVICE, Quota, Quotas, ways
from prefect_tpu.infra.gcp.quota_usage import ask_series, used_of
from prefect_tpu.infra.policy.quota import Allowance, Fit, Ruling, best, cannot_tell, for_now, judge
from prefect_tpu.infra.zones import region_of, zone_in

# https://cloud.google.com/compute/docs/instances/create-use-spot says it of processors, GPUs and disks (2026-11-28).
STANDARD_INSTEAD = "whether spot takes of the standard quota then is not known of TPUs"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is needed where: so many chips of a slice's kind, in a project.

    capacity: `on-demand`, `spot`, `flex-start` or `queue`.
    location: of the cluster, a region or a zone. zone: where the nodes shall be, where that is known.
    limit_seconds, use_seconds: how long either API may take; all quotas are asked for at once.
    """

    shape: Slice
    chips: int
    capacity: str
    project: str
    location: str
    zone: str | None = None
    limit_seconds: float = 6.0
    use_seconds: float = 4.0

    @property
    def where(self) -> str:
        """The narrowest place that is known."""
        return self.zone or self.location

    @property
    def region(self) -> str:
        return region_of(self.where)

    def place(self, quota: Quota) -> str | None:
        """Where a quota counts: the region, or the zone; None where that is not known."""
        if quota.scope == "region":
            return self.region
        return zone_in(self.where)


async def google_rulings(need: Need) -> tuple[Ruling, ...]:
    """One for each quota that counts."""
    if need.capacity == "reserved":
        return (Ruling(fit=Fit.FITS, said="nodes of a reservation take of no quota"),)
    if need.shape.platform != "tpu":
        return (cannot_tell(f"quotas of {need.shape.name} are not looked at", _page(need)),)
    return best(await asyncio.gather(*(_way(need, quotas) for quotas in ways(need.shape, need.capacity))))


async def _way(need: Need, quotas: Quotas) -> tuple[Ruling, ...]:
    """Quotas that must all allow it. One that Google knows and has no value of does not count; another one must."""
    if not quotas:
        what = f"{need.shape.generation} as {need.capacity}"
        return (cannot_tell(f"which quota counts for {what} is not known here", _page(need)),)
    found = await asyncio.gather(*(_ruling(need, quota) for quota in quotas))
    counted = tuple(ruling for ruling in found if ruling is not None)
    named = " and ".join(quota.id for quota in quotas)
    return counted or (cannot_tell(f"Google gives no value of {named} in project {need.project}", _page(need)),)


async def _ruling(need: Need, quota: Quota) -> Ruling | None:
    asked = partial(ask_listing, need.project, quota, need.limit_seconds)
    listing = await _told(asked, CLOUD_QUOTAS, need, need.limit_seconds)
    if listing is None:
        why = f"Google knows no quota {quota.id} in project {need.project}"
        return cannot_tell(why, _page(need))
    if isinstance(listing, Ruling):
        return cannot_tell(f"{_name(need, quota)}: {listing.said}", listing.advice)
    if not listing.entries:
        return None
    place = need.place(quota)
    return _somewhere(need, quota, listing) if place is None else await _in_place(need, quota, listing, place)


async def _in_place(need: Need, quota: Quota, listing: Listing, place: str) -> Ruling:
    limit = limit_in(listing, quota, place)
    allowed = Allowance(
        what=_name(need, quota, place),
        unit="chips",
        limit=limit,
        unknown="Google gives no value of it",
        more=_more(need, quota, listing, place),
        look=_page(need),
    )
    if limit is None or limit < need.chips or limit == inf:
        return _judged(need, allowed)
    asked = partial(ask_series, need.project, listing.metric, place, need.use_seconds)
    series = await _told(asked, MONITORING, need, need.use_seconds)
    if isinstance(series, Ruling):
        return _judged(need, replace(allowed, unknown=series.said, look=series.advice))
    used = used_of(series or (), quota)
    more = _more(need, quota, listing, place, used or 0.0)
    return _judged(need, replace(allowed, used=used, more=more, unknown="Cloud Monitoring has no point of it"))


def _somewhere(need: Need, quota: Quota, listing: Listing) -> Ruling:
    """In a region whose zone is left open: surely too little only where it is too little in all of them."""
    limits = {zone: limit_in(listing, quota, zone) for zone in locations_of(listing, need.region)}
    what = _name(need, quota, f"every zone of {need.region}")
    if not limits or any(limit is None or limit >= need.chips for limit in limits.values()):
        said = f"{_name(need, quota)} counts by zone, and where in {need.region} the nodes will be is left open"
        return cannot_tell(said, "Name a zone.")
    zone, most = max(limits.items(), key=lambda item: item[1] or 0.0)
    return _judged(need, Allowance(what=what, unit="chips", limit=most, more=_more(need, quota, listing, zone)))


def _judged(need: Need, allowance: Allowance) -> Ruling:
    """Without any preemptible quota, spot machines take of the standard one; Google says it, but not of TPUs."""
    ruling = judge(need.chips, allowance)
    return for_now((ruling,), STANDARD_INSTEAD)[0] if need.capacity == "spot" and allowance.limit == 0 else ruling


async def _told(ask: Callable[[], T], api: GoogleApi, need: Need, seconds: float) -> T | Ruling | None:
    """The answer; None where Google knows of no such thing; a ruling that says why it is not known."""
    from google.api_core.exceptions import NotFound  # Google's libraries load only where they are asked

    from prefect_tpu.infra.gcp.quota_errors import TROUBLES, why

    try:
        return await answered(ask, seconds)
    except NotFound:
        return None
    except TROUBLES as exc:
        return cannot_tell(*why(exc, api, need.project))


def _name(need: Need, quota: Quota, place: str = "") -> str:
    family = f" for {quota.family}" if quota.family else ""
    return f"quota {quota.id}{family} of project {need.project}{f' in {place}' if place else ''}"


def _page(need: Need) -> str:
    return f"See {PAGE}?project={need.project}."


def _more(need: Need, quota: Quota, listing: Listing, place: str, used: float = 0.0) -> str:
    if listing.fixed:
        return f"Google takes no request for more of it ({listing.fixed}). {_page(need)}"
    dimensions = ",".join([f"{quota.scope}={place}", *([f"{FAMILY}={quota.family}"] if quota.family else [])])
    return (
        f"Ask for more: gcloud quotas preferences create --service {SERVICE} --project {need.project} --quota-id"
        f" {quota.id} --dimensions {dimensions} --preferred-value {need.chips + used:g} --email YOUR_ADDRESS"
    )
