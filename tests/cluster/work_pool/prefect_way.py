"""The way of a worker to its Prefect server, on which each sort of request has all troubles once, and then none."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from faults import NONE, Asked, Fault, Kind, Traffic
from faulty import Faulty
from prefect_server import Server

_ID = re.compile("[0-9a-f]{8}-[0-9a-f-]{27}")
_NAME = re.compile("(work_pools|name)/[^/]+")


class Down(StrEnum):
    """What Prefect's server alone says: its database is locked, or away."""

    UNAVAILABLE = "503"

    @property
    def code(self) -> int:
        return int(self)


# What a server does in trouble: it refuses, it is down before the work is done, and it breaks after that.
TROUBLES = (Fault(kind=Kind.BUSY, seconds=1.0), Fault(kind=Down.UNAVAILABLE), Fault(kind=Kind.BROKEN, is_done=True))


def sort_of(asked: Asked) -> str:
    """A request as one of its kind: without ids, and without the pool's and the worker's own names."""
    path = _ID.sub("ID", urlsplit(asked.target).path.removeprefix("/api"))
    return f"{asked.method} {_NAME.sub(lambda found: f'{found[1]}/NAME', path)}"


@dataclass(slots=True, kw_only=True)
class EachInTurn:
    """The plan: every sort of request has all troubles, one after the other.

    struck: how often each sort went wrong.
    """

    troubles: Sequence[Fault] = TROUBLES
    struck: Counter[str] = field(default_factory=Counter)

    def of(self, number: int, asked: Asked, before: Counter[Kind]) -> Fault | None:
        sort = sort_of(asked)
        if self.struck[sort] >= len(self.troubles):
            return None
        self.struck[sort] += 1
        return self.troubles[self.struck[sort] - 1]


@contextmanager
def way_to(server: Server, traffic: Traffic) -> Iterator[Faulty]:
    """Everything passes as it is until `faults` of what is returned says otherwise."""
    url = server.environment["PREFECT_API_URL"].removesuffix("/api")
    with Faulty(url, traffic, NONE, name="prefect", says=prefect_says) as proxy:
        yield proxy


def prefect_says(fault: Fault) -> bytes:
    """An error in the words of Prefect's server."""
    return json.dumps({"exception_message": f"{fault.kind.name.lower()}, says the test"}).encode()
