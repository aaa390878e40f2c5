"""Where on this machine do the hosts of an attempt meet?"""

from __future__ import annotations

import hashlib
import socket

from prefect_tpu.infra.errors import PlatformError

# Below the kernels' usual ephemeral ranges, so that no client connection takes the port meanwhile.
FIRST_PORT, LAST_PORT = 20_000, 32_000
TRIES = 200


def free_port(seed: str) -> int:
    """A free port on loopback, searched from a place that the seed gives: jobs side by side start apart."""
    span = LAST_PORT - FIRST_PORT
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) % span
    for offset in range(TRIES):
        port = FIRST_PORT + (start + offset) % span
        if _is_free(port):
            return port
    raise PlatformError(f"No free port among {TRIES} tried from {FIRST_PORT + start}: end what listens there.")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
