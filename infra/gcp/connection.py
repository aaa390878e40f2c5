"""How does one request reach the API server, and what came back?

Everything of aiohttp and of the Kubernetes library ends here: above, there are
dicts, lines of bytes and our errors.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
from kubernetes.aio.client.rest import RESTClientObject, RESTResponse

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.access import Access
from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.errors import ClusterError, Silent, Unauthorized, Unavailable, error_of, read_status
from prefect_tpu.infra.gcp.patience import Patience, is_worth_repeating, persevere
from prefect_tpu.infra.gcp.resources import Resource

_BLOCK_BYTES = 65_536
_AT_ONCE = 32  # requests, watches apart: more are answered no sooner, and each would wait within its time


class Connection:
    """Requests to one cluster. Close it.

    served: the types of several versions that the cluster was asked for, by their full names.
    is_over: never; whoever shares it may use it until it is closed.
    """

    is_over = False

    def __init__(self, access: Access, patience: Patience) -> None:
        self.access, self.patience = access, patience
        self.served: dict[str, Resource] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        try:
            self._rest = RESTClientObject(access.configuration)
        except (OSError, ValueError) as exc:
            raise UsageError(
                f"The certificates for cluster {access.cluster} cannot be used: {exc}. Get its credentials anew."
            ) from exc

    async def close(self) -> None:
        await self._rest.close()

    async def send(self, call: Call) -> dict[str, Any]:
        """The answer, as JSON. Sent again, for a bounded time, only where repeating does no harm."""
        return await persevere(
            lambda: self.send_once(call),
            self.patience,
            seconds=self.patience.retry,
            is_worth=lambda error: is_worth_repeating(error, is_harmless=call.may_be_repeated),
        )

    async def send_once(self, call: Call) -> dict[str, Any]:
        """The answer to one request, or the error that it is."""
        limits = aiohttp.ClientTimeout(total=self.patience.request, sock_connect=self.patience.connect)
        async with self._slots:
            response = await self._open(call, limits)
            try:
                data = await response.read()
            except (aiohttp.ClientError, OSError) as exc:
                raise self._unreachable(call, exc) from exc
        try:
            answer = json.loads(data)
        except ValueError as exc:
            raise self._unreachable(call, exc) from exc
        return answer if isinstance(answer, dict) else {}

    async def lines(self, call: Call) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that goes on; a connection without a byte for `patience.silence` is given up."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self.patience.connect, sock_read=self.patience.silence)
        response = (await self._open(call, limits)).response
        rest = b""
        try:
            while block := await response.content.read(_BLOCK_BYTES):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    yield line
            if rest:
                yield rest
        except TimeoutError as exc:
            seconds = f"{self.patience.silence:.0f} s"
            raise Silent(
                f"Nothing was heard from cluster {self.access.cluster} of {call.object} for {seconds}."
            ) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise self._unreachable(call, exc) from exc
        finally:
            response.close()

    async def _open(self, call: Call, limits: aiohttp.ClientTimeout) -> RESTResponse:
        """A good response; with new credentials if the old ones are not accepted any more."""
        try:
            return await self._ask(call, limits)
        except Unauthorized:
            if not await self.access.renew():
                raise
        return await self._ask(call, limits)

    async def _ask(self, call: Call, limits: aiohttp.ClientTimeout) -> RESTResponse:
        configuration = self.access.configuration
        token = await configuration.get_api_key_with_prefix("BearerToken")  # renews what is about to expire
        headers = {"Accept": call.accept, "Content-Type": call.content_type, "User-Agent": "prefect-tpu"}
        if token:
            headers["Authorization"] = token
        try:
            response: RESTResponse = await self._rest.request(
                call.method,
                f"{configuration.host}{call.address}",
                headers=headers,
                body=call.body,
                _request_timeout=limits,
            )
            if response.status < 400:
                return response
            answer = read_status(response.status, await response.read(), response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError) as exc:
            raise self._unreachable(call, exc) from exc
        raise error_of(call, answer, self.access.cluster)

    def _unreachable(self, call: Call, exc: Exception) -> ClusterError:
        about = f"Could not {call.verb} {call.object} of cluster {self.access.cluster}"
        host = self.access.configuration.host
        if isinstance(exc, aiohttp.ClientSSLError | ssl.SSLError):
            return ClusterError(f"{about}: {host} is not trusted: {exc}. Get the cluster's credentials anew.")
        return Unavailable(
            f"{about}: {host} did not answer: {exc or type(exc).__name__}. Check the network and the cluster.",
            is_unprocessed=isinstance(exc, aiohttp.ClientConnectorError),
        )
