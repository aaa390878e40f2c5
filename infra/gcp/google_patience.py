"""How often is an API of Google asked again? Only for reading, and only within what the caller waits anyway."""

from __future__ import annotations

from typing import Any

from google.api_core import exceptions, retry


def patience(seconds: float) -> dict[str, Any]:
    """The keyword arguments of a call: how long one try may take, and for how long there is another."""
    for_now = retry.if_exception_type(exceptions.ServiceUnavailable, exceptions.TooManyRequests)
    again = retry.Retry(predicate=for_now, initial=0.3, maximum=2.0, timeout=seconds)
    return {"timeout": seconds, "retry": again}
