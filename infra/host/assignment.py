"""Which host of which attempt is this process, and what was sent for it?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import BUCKET, Storage, open_on_host

PLAN = "plan.json"  # of a host with a disk of its own: its program sees no other
INDEX = "JOB_COMPLETION_INDEX"  # by Kubernetes, in the pods of an Indexed Job


class NotOurs(Exception):
    """What was found is not for this process; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One host of one attempt.

    storage: the job's folder.
    scratch: this host's own folder.
    plan_path: where the program finds the plan.
    archive: the file that this code came in; None where it is installed.
    """

    plan: HostPlan
    host: int
    storage: Storage
    scratch: Path
    plan_path: Path
    archive: str | None


def assignment(arguments: Sequence[str], environment: Mapping[str, str]) -> Assignment:
    """Of `PLAN [HOST]`: a path or a URL, and a number where the environment does not say it.

    Raises:
        NotOurs: the plan is gone or another attempt's, or has no such host.
        PlatformError: it cannot be read.
    """
    plan = _read(arguments[0])
    _check_mark(plan, environment.get(Env.ATTEMPT))
    host = host_number(plan, arguments[1:], environment)
    scratch = plan.scratch_folder(host)
    return Assignment(
        plan=plan,
        host=host,
        storage=open_on_host(plan.output),
        scratch=scratch,
        plan_path=Path(arguments[0]).absolute() if plan.scratch is None else scratch / PLAN,
        archive=own_archive(),
    )


def own_archive() -> str | None:
    """The file that this code came in; None where it is installed."""
    return _archive(Path(__file__).absolute().parents[3])


def _archive(root: Path) -> str | None:
    """A file in an archive has the archive among the folders of its path."""
    return str(root) if root.is_file() else None


def _read(place: str) -> HostPlan:
    """With the storage of the job's folder, in which a plan lies three names deep."""
    folder, *names = (place if place.startswith(BUCKET) else os.path.abspath(place)).rsplit("/", 3)
    raw = open_on_host(folder).get("/".join(names))
    if raw is None:
        raise NotOurs(f"There is no plan at {place}: the job was deleted since it was sent. Run it again.")
    return HostPlan.from_json(raw)


def _check_mark(plan: HostPlan, mark: str | None) -> None:
    """A host that was made for one attempt must not write into another's folder."""
    if mark not in (None, plan.mark):
        raise NotOurs(
            f"This host was made for {mark}, and the plan it was given is {plan.mark}'s. Somebody changed one of them:"
            " run the job again, which makes both anew."
        )


def host_number(plan: HostPlan, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Counted over all slices; Kubernetes counts pods within each. Raises `NotOurs` for a host that is not there."""
    given = arguments[0] if arguments else environment.get(Env.HOST)
    if given is None and plan.hosts > 1 and INDEX not in environment:
        raise NotOurs(f"Which of {plan.hosts} hosts this is, is not said: set {Env.HOST}, or run it in an Indexed Job.")
    index, number = environment.get(INDEX, "0"), environment.get(Env.SLICE, "0")
    within = given is not None or (_whole(index) < plan.hosts_per_slice and _whole(number) < plan.slices)
    host = _whole(given) if given is not None else _whole(number) * plan.hosts_per_slice + _whole(index)
    if not within or host >= plan.hosts:
        said = f"host {given}" if given is not None else f"pod {index} of slice {number}"
        raise NotOurs(f"This is {said}, and {plan.mark} has {plan.slices} x {plan.hosts_per_slice} hosts, from 0.")
    return host


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise NotOurs(f"A host's number is {text!r}: it must be a whole number from 0.")
    return int(text)
