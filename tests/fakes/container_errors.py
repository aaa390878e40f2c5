"""What does the Container API say when it refuses?"""

from __future__ import annotations

from typing import Any

_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


class Refused(Exception):
    """A request that is not done. status: a name of google.rpc.Code. http: where it is not the usual one."""

    def __init__(self, status: str, message: str, http: int | None = None) -> None:
        super().__init__(message)
        self.status, self.http = status, http or _HTTP[status]

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.http, "message": str(self), "status": self.status}}


def invalid(message: str) -> Refused:
    return Refused("INVALID_ARGUMENT", message)


def not_found(name: str) -> Refused:
    return Refused("NOT_FOUND", f"Not found: {name}.")


def exists(name: str) -> Refused:
    return Refused("ALREADY_EXISTS", f"Already exists: {name}.")


def busy(operation: str) -> Refused:
    return Refused("FAILED_PRECONDITION", f"Cluster is running incompatible operation {operation}.")


def denied(permission: str, resource: str) -> Refused:
    return Refused("PERMISSION_DENIED", f'Required "{permission}" permission(s) for "{resource}".')
