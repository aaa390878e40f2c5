"""How is an API of Google reached: at which address, with whose credentials, and for how long?

Gcloud's own variables name another address; a plain one, `http://` on this machine, is asked without credentials.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from prefect_tpu.infra.errors import UsageError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleApi:
    """One API.

    name: as people call it. service: as Google calls it, which is its host too.
    role: lets one read it.
    override: gcloud's variable for its address.
    """

    name: str
    service: str
    role: str
    override: str


CLOUD_QUOTAS = GoogleApi(
    name="Cloud Quotas",
    service="cloudquotas.googleapis.com",
    role="roles/cloudquotas.viewer",
    override="CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS",
)
MONITORING = GoogleApi(
    name="Cloud Monitoring",
    service="monitoring.googleapis.com",
    role="roles/monitoring.viewer",
    override="CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an API is: a host with its port, and whether it is a plain one of this machine."""

    host: str
    is_plain: bool


def address_of(api: GoogleApi) -> Address:
    """Raises `UsageError` where the variable leads to a plain address that is not of this machine."""
    url = os.environ.get(api.override) or f"https://{api.service}"
    wrong = UsageError(f"{api.override} is {url!r}: name an https address, or http on this machine.")
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise wrong from exc
    is_plain = parts.scheme == "http" and _is_here(parts.hostname or "")
    if not parts.netloc or (parts.scheme != "https" and not is_plain):
        raise wrong
    return Address(host=parts.netloc, is_plain=is_plain)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def credentials_for(address: Address) -> Credentials:
    """The Application Default Credentials, which are never sent in the plain. Raises Google's errors."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials

    if address.is_plain:
        return AnonymousCredentials()
    found: Credentials = google.auth.default(scopes=[SCOPE])[0]
    return found


def word(value: Any) -> str:
    """A value of an enumeration of Google's, by its name; by its number where Google has added it since."""
    return str(getattr(value, "name", value))


def is_unreadable(error: Exception) -> bool:
    """Whether Google's client could make nothing of an answer, as of a proxy's page: it trusts whatever comes."""
    from google.auth.exceptions import GoogleAuthError
    from google.protobuf.json_format import Error

    fails = isinstance(error, ValueError | TypeError | AttributeError)
    return isinstance(error, Error) or (fails and not isinstance(error, OSError | GoogleAuthError))


async def answered(ask: Callable[[], T], seconds: float) -> T:
    """What a plain call returns, which runs in a thread that nobody waits for any longer than that.

    Raises `TimeoutError`, and whatever the call raises.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = ask()
        except Exception as exc:
            _tell(loop, _fail, future, exc)
        else:
            _tell(loop, _finish, future, value)

    threading.Thread(target=run, name="google api", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await future


def _tell(loop: asyncio.AbstractEventLoop, how: Callable[..., None], *what: object) -> None:
    try:
        loop.call_soon_threadsafe(how, *what)
    except RuntimeError:  # whoever asked has gone meanwhile, and the loop with them
        return


def _finish(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
