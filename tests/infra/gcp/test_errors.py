"""What a cluster's answer is, and what a person reads of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    Unauthorized,
    Unavailable,
    error_of,
    read_status,
)
from prefect_tpu.infra.gcp.resources import JOBSETS, NODES, PODS

CREATE = Call(verb="create", resource=JOBSETS, namespace="research", name="digits-1")
ALSO_FORBIDDEN = "jobsets.jobset.x-k8s.io is forbidden"


def answered(call: Call, code: int, message: str = "", reason: str = "", **details: Any) -> ClusterError:
    status = {"kind": "Status", "message": message, "reason": reason, "details": details, "code": code}
    return error_of(call, read_status(code, json.dumps(status).encode()), "'test'")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Refused),
        (401, Unauthorized),
        (404, NotFound),
        (405, Refused),
        (408, Unavailable),
        (409, Conflict),
        (410, Expired),
        (413, Refused),
        (415, Refused),
        (422, Refused),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
def test_a_code_is_an_error_of_ours(code: int, kind: type[ClusterError]) -> None:
    error = answered(CREATE, code, "said")
    assert type(error) is kind
    assert "JobSet 'digits-1' in namespace 'research' of cluster 'test'" in str(error)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (f'{ALSO_FORBIDDEN}: User "ann" cannot create resource "jobsets" in API group "jobset.x-k8s.io"', Forbidden),
        (
            f'{ALSO_FORBIDDEN}: User "a@b.c" cannot create resource "jobsets": requires one of ["container.x"]',
            Forbidden,
        ),
        ('admission webhook "vjobset.kb.io" denied the request: too long', Refused),
        (f"{ALSO_FORBIDDEN}: exceeded quota: q, requested: count/jobsets=1, used: 3, limited: 3", Refused),
        (f"{ALSO_FORBIDDEN}: unable to create new content in namespace x because it is being terminated", Refused),
    ],
)
def test_forbidden_is_a_missing_permission_only_where_the_api_server_says_so(
    said: str, kind: type[ClusterError]
) -> None:
    error = answered(CREATE, 403, said, "Forbidden")
    assert type(error) is kind
    assert said in str(error)


def test_a_missing_permission_names_the_command_that_tells() -> None:
    said = 'User "ann" cannot'
    assert "`kubectl auth can-i create jobsets.jobset.x-k8s.io --namespace research`" in str(
        answered(CREATE, 403, said)
    )
    log = Call(verb="get", resource=PODS, namespace="research", name="a", part="log")
    assert "`kubectl auth can-i get pods --subresource=log --namespace research`" in str(answered(log, 403, said))
    nodes = Call(verb="list", resource=NODES)
    assert "`kubectl auth can-i list nodes`" in str(answered(nodes, 403, said))
    everywhere = Call(verb="list", resource=PODS)
    assert "`kubectl auth can-i list pods --all-namespaces`" in str(answered(everywhere, 403, said))


def test_a_quota_that_is_used_up_is_known() -> None:
    quota = answered(CREATE, 403, "exceeded quota: q")
    other = answered(CREATE, 422, "spec: Invalid value")
    assert isinstance(quota, Refused) and quota.is_quota
    assert isinstance(other, Refused) and not other.is_quota


def test_a_missing_namespace_is_not_a_missing_object() -> None:
    error = answered(CREATE, 404, 'namespaces "research" not found', "NotFound", kind="namespaces", name="research")
    assert str(error).endswith('namespaces "research" not found.')


def test_a_type_that_is_not_served_is_not_a_missing_object() -> None:
    error = error_of(CREATE, read_status(404, b"404 page not found\n"), "'test'")
    assert isinstance(error, NotFound) and error.is_type
    assert "does not know JobSet (jobset.x-k8s.io/v1alpha2)" in str(error)


def test_seconds_to_wait_are_read_from_the_header_or_the_status() -> None:
    assert read_status(429, b"", "7").retry_after == 7.0
    assert read_status(504, b'{"details": {"retryAfterSeconds": 3}}').retry_after == 3.0
    assert read_status(503, b"", "Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None


def test_only_what_was_turned_away_is_certain_not_to_have_happened() -> None:
    assert [getattr(answered(CREATE, code), "is_unprocessed", None) for code in (429, 500, 503)] == [True, False, False]
