"""With whose rights does a host ask Google? Those of its machine's service account, by the metadata server."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request

METADATA_HOST = "GCE_METADATA_HOST"  # the variable by which Google's own libraries are led to another metadata server
_ADDRESS = "metadata.google.internal"
_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_MARGIN = 300.0  # seconds before its end that a token is renewed: https://cloud.google.com/compute/docs/access, 2026-11
_TIMEOUT = 10.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy knows this machine's metadata


class MachineToken:
    """The access token of this machine, renewed before it expires."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._token, self._until = "", 0.0

    def header(self) -> dict[str, str]:
        """What a request says of itself. Raises `OSError` where the metadata server does not answer."""
        with self._one_at_a_time:
            if time.monotonic() >= self._until:
                self._renew()
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        """It was not accepted."""
        self._until = 0.0

    def _renew(self) -> None:
        address = os.environ.get(METADATA_HOST, _ADDRESS)
        request = urllib.request.Request(f"http://{address}{_PATH}", headers={"Metadata-Flavor": "Google"})
        asked = time.monotonic()
        with _DIRECT.open(request, timeout=_TIMEOUT) as answer:
            found = json.load(answer)
        self._token, self._until = found["access_token"], asked + max(found["expires_in"] - _MARGIN, 0.0)


class NoToken:
    """Of an emulator, which asks for none."""

    def header(self) -> dict[str, str]:
        return {}

    def forget(self) -> None:
        """There is nothing to forget."""
