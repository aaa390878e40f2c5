"""What can a cluster answer other than yes?

    PlatformError
    └── ClusterError         what the API server said: `code`, `reason`, `said`
        ├── NotFound         no such object; with `is_type`, the cluster does not know the type
        ├── Conflict         the name is another owner's, or the object changed meanwhile
        ├── Unauthorized     the credentials are not accepted
        ├── Forbidden        the credentials are accepted and may not do this
        ├── Refused          the API server or an admission webhook does not take the object
        ├── Expired          what was read so far is forgotten: list again
        └── Unavailable      no answer, or not now: the only one where repeating helps
            └── Silent       what was open brought nothing any more

Kinds follow from the code and the reason of the API's Status object. One thing
it says by text alone: Forbidden is also the code of quotas and webhooks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp.calls import Call

_NOT_NOW = (408, 429)
_NO_PERMISSION = 'User "'  # RBAC and GKE's IAM alike: `... is forbidden: User "ann" cannot list resource "pods" ...`
_QUOTA = "exceeded quota: "  # the admission plugin ResourceQuota, which has no code or reason of its own
_SHOWN = 2_000  # characters of what a proxy may answer in place of the API server


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: the HTTP code (0 where nothing came), the API's reason and words, and the seconds to wait."""

    code: int = 0
    reason: str = ""
    said: str = ""
    details: Mapping[str, Any] | None = None
    retry_after: float | None = None


class ClusterError(PlatformError):
    """The cluster did not do what it was asked for."""

    def __init__(self, message: str, answer: Answer | None = None) -> None:
        self.answer = answer or Answer()
        super().__init__(message)

    @property
    def said(self) -> str:
        """The API server's own words."""
        return self.answer.said


class NotFound(ClusterError):
    """There is no such object or, with `is_type`, no such type of objects in this cluster."""

    @property
    def is_type(self) -> bool:
        return not self.answer.details


class Conflict(ClusterError):
    """The name belongs to somebody else, or the object is not as it was when it was read."""


class Unauthorized(ClusterError):
    """The API server does not know who is asking."""


class Forbidden(ClusterError):
    """Whoever is asking lacks a permission."""


class Refused(ClusterError):
    """The object is not acceptable; sending it again changes nothing."""

    @property
    def is_quota(self) -> bool:
        """Whether a ResourceQuota of the namespace is used up."""
        return _QUOTA in self.said


class Expired(ClusterError):
    """The API server has forgotten the version that was named: begin with a new list."""


class Unavailable(ClusterError):
    """No answer, or none for now.

    is_unprocessed: whether it is certain that nothing was done.
    """

    def __init__(self, message: str, answer: Answer | None = None, *, is_unprocessed: bool = False) -> None:
        self.is_unprocessed = is_unprocessed
        super().__init__(message, answer)


class Silent(Unavailable):
    """An open watch or log brought no byte for `patience.silence` seconds."""


def read_status(code: int, body: bytes, retry_after: str | None = None) -> Answer:
    """The API's Status object, or whatever stands between us and the API server answered instead."""
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        return Answer(code=code, said=body[:_SHOWN].decode(errors="replace").strip(), retry_after=seconds)
    return answer_of(status, code, seconds)


def answer_of(status: Mapping[str, Any], code: int = 0, retry_after: float | None = None) -> Answer:
    """A Status object in our words."""
    details = status.get("details") or None
    if retry_after is None and details and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    return Answer(
        code=int(status.get("code") or code),
        reason=str(status.get("reason") or ""),
        said=str(status.get("message") or ""),
        details=details,
        retry_after=retry_after,
    )


def error_of(call: Call, answer: Answer, cluster: str) -> ClusterError:
    """The error that an answer is."""
    make = _BY_CODE.get(answer.code)
    if make is None:
        make = _unavailable if answer.code in _NOT_NOW or answer.code >= 500 else _refused
    return make(call, answer, cluster)


def _could_not(call: Call, cluster: str) -> str:
    return f"Could not {call.verb} {call.object} of cluster {cluster}"


def _not_found(call: Call, answer: Answer, cluster: str) -> ClusterError:
    if not answer.details:
        return NotFound(
            f"{_could_not(call, cluster)}: it does not know {call.resource.kind} ({call.resource.api_version}). Install"
            " what brings it, or name another cluster.",
            answer,
        )
    is_itself = answer.details.get("kind") == call.resource.plural  # else, say, the namespace of a new object
    return NotFound(f"{_could_not(call, cluster)}: {'it is not there' if is_itself else answer.said}.", answer)


def _conflict(call: Call, answer: Answer, cluster: str) -> ClusterError:
    return Conflict(f"{_could_not(call, cluster)}: {answer.said or 'it is not as expected'}.", answer)


def _unauthorized(call: Call, answer: Answer, cluster: str) -> ClusterError:
    return Unauthorized(
        f"{_could_not(call, cluster)}: the credentials are not accepted. Log in again, or name the cluster by another"
        " kubeconfig context or as gke://project/location/cluster.",
        answer,
    )


def _forbidden(call: Call, answer: Answer, cluster: str) -> ClusterError:
    if _NO_PERMISSION not in answer.said:
        return _refused(call, answer, cluster)
    return Forbidden(
        f"{_could_not(call, cluster)}: no permission to {call.verb} {call.resource.full_name}"
        f"{f'/{call.part}' if call.part else ''}. The API server says: {answer.said}. Ask whoever administers the"
        f" cluster for it; `{call.can_i}` tells when it is there.",
        answer,
    )


def _refused(call: Call, answer: Answer, cluster: str) -> ClusterError:
    said = answer.said or f"no reason given (HTTP {answer.code})"
    return Refused(f"{_could_not(call, cluster)}: it was refused: {said}. Change what it names.", answer)


def _expired(call: Call, answer: Answer, cluster: str) -> ClusterError:
    return Expired(f"{_could_not(call, cluster)}: {answer.said or 'the version is too old'}. List again.", answer)


def _unavailable(call: Call, answer: Answer, cluster: str) -> ClusterError:
    said = f"HTTP {answer.code}{f': {answer.said}' if answer.said else ''}"
    message = f"{_could_not(call, cluster)}: its API server answers with {said}. Try again later."
    return Unavailable(message, answer, is_unprocessed=answer.code == 429)


_BY_CODE = {
    401: _unauthorized,
    403: _forbidden,
    404: _not_found,
    409: _conflict,
    410: _expired,
}
