"""What if a Prefect server has too many requests? It is busy for now, as one that is away is.

Prefect's workers outlast a server that is away or broken, and end with the first 429 that outlives their client's own
tries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

BUSY = 429


def is_away(exc: BaseException) -> bool:
    """Whether this is no answer to what was asked, so that it is asked again."""
    if isinstance(exc, httpx.HTTPStatusError):
        return exc.response.status_code >= 500 or exc.response.status_code in (408, BUSY)
    return isinstance(exc, httpx.TransportError)


@contextmanager
def busy_is_away() -> Iterator[None]:
    """Within, a server that is too busy is told as one that does not answer; other refusals are told as they are."""
    try:
        yield
    except httpx.HTTPStatusError as exc:
        if exc.response.status_code != BUSY:
            raise
        raise httpx.TransportError(f"The Prefect server has too many requests: {exc}", request=exc.request) from exc
