"""Why an API did not tell, by its codes, and what is to be done."""

from __future__ import annotations

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.protobuf.json_format import ParseError
from google.rpc import error_details_pb2

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS, MONITORING
from prefect_tpu.infra.gcp.quota_errors import TROUBLES, why

OFF = error_details_pb2.ErrorInfo(reason="SERVICE_DISABLED")


@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        (
            exceptions.Forbidden("no"),
            "no permission to ask Cloud Quotas",
            "Ask for roles/cloudquotas.viewer",
        ),
        (
            exceptions.PermissionDenied("no", error_info=OFF),
            "switched off in project p",
            "gcloud services enable cloudquotas.googleapis.com --project p",
        ),
        (DefaultCredentialsError("none"), "there are no Google credentials", "gcloud auth application-default login"),
        (RefreshError("gone"), "does not accept the credentials (gone)", "gcloud auth application-default login"),
        (exceptions.Unauthenticated("old"), "does not accept the credentials", "gcloud auth application-default login"),
        (TimeoutError(), "did not answer in time", "network"),
        (exceptions.DeadlineExceeded("late"), "did not answer in time", "network"),
        (requests.ReadTimeout(), "did not answer in time", "network"),
        (requests.ConnectionError("host secret"), "cannot be reached (ConnectionError)", "network"),
        (exceptions.ServiceUnavailable("GET https://x/y: busy"), "cannot be reached (UNAVAILABLE: busy)", "Ask again"),
        (exceptions.RetryError("late", exceptions.ServiceUnavailable("busy")), "cannot be reached", "Ask again"),
        (exceptions.InternalServerError("broken"), "answers INTERNAL: broken", "Ask again later."),
        (ParseError("html"), "something else than Cloud Quotas answered", "proxy"),
    ],
)
def test_what_happened_and_what_to_do(error: Exception, said: str, advice: str) -> None:
    assert isinstance(error, TROUBLES)
    told = why(error, CLOUD_QUOTAS, "p")
    assert said in told[0] and advice in told[1]


def test_a_wrong_variable_is_not_blamed_on_google() -> None:
    assert why(UsageError("CLOUDSDK_X is wrong."), MONITORING, "p") == ("CLOUDSDK_X is wrong", "")


def test_each_api_names_its_own_role() -> None:
    assert why(exceptions.PermissionDenied("no"), MONITORING, "p")[1] == "Ask for roles/monitoring.viewer in project p."
