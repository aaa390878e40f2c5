"""How does a command ask the Prefect server? What that refuses, or that it is away, is an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client

from prefect_tpu.flows.call import SERVER_ADVICE, check_server, check_server_lasts
from prefect_tpu.infra.errors import PlatformError


@contextmanager
def prefect_server() -> Iterator[SyncPrefectClient]:
    """The one of the profile in use. Raises `PlatformError` for whatever it does not answer in the block.

    It has to be there before and after: what is made or asked for here is for others.
    """
    check_server_lasts()
    check_server()
    try:
        with get_client(sync_client=True) as client:
            yield client
    except httpx.HTTPStatusError as exc:
        said = f"{exc.response.status_code} {exc.response.text[:300]}"
        raise PlatformError(f"The Prefect server refused: {said}. {SERVER_ADVICE}") from exc
    except httpx.HTTPError as exc:
        raise PlatformError(f"The Prefect server cannot be reached: {exc}. {SERVER_ADVICE}") from exc
