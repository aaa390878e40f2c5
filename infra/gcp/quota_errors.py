"""Why did an API of Google not tell, and what is to be done about it? By codes and reasons, never by texts."""

from __future__ import annotations

import re

import google.auth.exceptions
import requests
from google.api_core import exceptions
from google.protobuf.json_format import Error as NotJson

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.google_api import GoogleApi

# What may go wrong on the way to an answer; anything else is a defect of ours.
TROUBLES = (
    exceptions.GoogleAPIError,
    google.auth.exceptions.GoogleAuthError,
    requests.RequestException,
    # something on the way answered instead: what Google's clients make of it fails in any way
    NotJson,
    ValueError,
    TypeError,
    AttributeError,
    UsageError,
    OSError,  # TimeoutError too
)


def why(error: BaseException, api: GoogleApi, project: str) -> tuple[str, str]:
    """What happened, and what to do."""
    if isinstance(error, exceptions.RetryError) and error.cause is not None:
        error = error.cause
    if isinstance(error, UsageError):
        return str(error).rstrip("."), ""
    if isinstance(error, exceptions.Forbidden):
        return _forbidden(error, api, project)
    if isinstance(error, google.auth.exceptions.DefaultCredentialsError):
        return f"there are no Google credentials to ask {api.name} with", _LOGIN
    if isinstance(error, exceptions.Unauthorized | google.auth.exceptions.GoogleAuthError):
        return f"{api.name} does not accept the credentials ({_short(error)})", _LOGIN
    if isinstance(error, exceptions.GatewayTimeout | TimeoutError | requests.Timeout):
        return f"{api.name} did not answer in time", "Ask again, or look at the network."
    if isinstance(error, exceptions.ServiceUnavailable | requests.ConnectionError | OSError):
        return f"{api.name} cannot be reached ({_short(error)})", "Ask again, or look at the network."
    if isinstance(error, NotJson | ValueError | TypeError | AttributeError):
        return f"something else than {api.name} answered", "Look for a proxy or a page to log in on the way."
    return f"{api.name} answers {_short(error)}", "Ask again later."


_ADDRESS = re.compile(r"^[A-Z]+ https?://\S+: ")  # before what an API says that is asked by REST
_SHOWN = 200  # characters
_LOGIN = "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."


def _forbidden(error: exceptions.Forbidden, api: GoogleApi, project: str) -> tuple[str, str]:
    if error.reason == "SERVICE_DISABLED":
        return (
            f"{api.name} is switched off in project {project}",
            f"Switch it on: gcloud services enable {api.service} --project {project}",
        )
    return f"no permission to ask {api.name} of project {project}", f"Ask for {api.role} in project {project}."


def _short(error: BaseException) -> str:
    """The kind of error, and the first line of what it says, without the request's address."""
    if isinstance(error, exceptions.GoogleAPICallError):
        code = error.grpc_status_code.name if error.grpc_status_code is not None else error.code
        return f"{code}: {_ADDRESS.sub('', str(error.message)).partition(chr(10))[0][:_SHOWN]}"
    if isinstance(error, requests.RequestException):
        return type(error).__name__
    return (str(error) or type(error).__name__).partition("\n")[0][:_SHOWN]
