"""The API server on command, of the tests of the client, for what reads and sends through that client."""

from __future__ import annotations

from tests.infra.gcp.conftest import anyio_backend, cluster, kubeconfig, server

__all__ = ["anyio_backend", "cluster", "kubeconfig", "server"]
