"""An API server that does on command what a real one does once in a while, and the client that talks to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from aiohttp import web

from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.patience import Patience

if TYPE_CHECKING:
    from container import Google

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the Kubernetes library knows no other


class Scripted:
    """A server whose answers are laid down before: one per request to an address, in order, the last one for good."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.tokens: list[str | None] = []
        self.url = ""
        self._answers: dict[tuple[str, str], list[Handler]] = {}
        self._closing = asyncio.Event()

    def on(self, method: str, path: str, *answers: Handler) -> None:
        self._answers[method, path] = [*answers]

    def asked(self, method: str, path: str = "") -> list[tuple[dict[str, str], Any]]:
        """Query and body of each request so far."""
        return [(query, body) for verb, at, query, body in self.requests if verb == method and at.endswith(path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        is_json = request.content_type == "application/json" and request.method != "GET"
        body = json.loads(await request.text() or "null") if is_json else None
        if request.content_type == "application/x-www-form-urlencoded":
            body = dict(await request.post())
        self.requests.append((request.method, request.path, dict(request.query), body))
        self.tokens.append(request.headers.get("Authorization"))
        answers = self._answers.get((request.method, request.path))
        if answers is None:
            return web.Response(status=404, text="404 page not found\n")  # as for a type that is not served
        return await (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    @asynccontextmanager
    async def running(self, ssl_context: Any = None) -> AsyncIterator[Scripted]:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context).start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            self._closing.set()
            await runner.cleanup()

    # Answers

    def json(self, content: Any, code: int = 200, **headers: str) -> Handler:
        async def answer(_: web.Request) -> web.StreamResponse:
            return web.json_response(content, status=code, headers=headers)

        return answer

    def status(self, code: int, reason: str, message: str, details: Any = None, **headers: str) -> Handler:
        status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details or {}}
        return self.json(status, code, **headers)

    def items(self, *objects: dict[str, Any], version: str = "1", next_page: str = "") -> Handler:
        metadata = {"resourceVersion": version, **({"continue": next_page} if next_page else {})}
        return self.json({"kind": "List", "metadata": metadata, "items": [*objects]})

    def drop(self) -> Handler:
        """The request arrives, and the connection breaks."""

        async def answer(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        return answer

    def stream(self, *lines: Any, then: str = "end") -> Handler:
        """Lines, and then its end, a broken connection, or silence."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for line in lines:
                await response.write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
            if then == "silence":
                await self._closing.wait()
            if then == "break":
                assert request.transport is not None
                request.transport.abort()
            return response

        return answer


@pytest.fixture
async def server(anyio_backend: str) -> AsyncGenerator[Scripted, None]:
    async with Scripted().running() as running:
        yield running


QUICK = Patience(
    connect=5, request=5, retry=20, watch=1, silence=0.5, unreachable=20, first_pause=0.01, longest_pause=0.05
)


@pytest.fixture
def patience() -> Patience:
    return QUICK


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    """Google's API of node pools, with the cluster that tests ask for pools in."""
    import container  # Google's libraries load only for the tests that ask Google

    from tests.infra.gcp.pool_driver import CLUSTER

    with container.taken_for_google(monkeypatch, CLUSTER.resource_name) as fake:
        yield fake


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a kubeconfig with one context, `test`, and makes it the one that is read."""

    def write(url: str, user: dict[str, Any] | None = None, **top: Any) -> Path:
        path = tmp_path / "kubeconfig"
        config = {
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "research"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "secret-token"} if user is None else user}],
        }
        path.write_text(yaml.safe_dump({**config, **top}))
        monkeypatch.setenv("KUBECONFIG", str(path))
        return path

    return write


@pytest.fixture
async def cluster(server: Scripted, kubeconfig: Callable[..., Path]) -> AsyncGenerator[Kubernetes, None]:
    kubeconfig(server.url)
    async with Kubernetes(patience=QUICK) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def make_pod() -> Callable[..., dict[str, Any]]:
    def make(name: str, version: str = "1", **metadata: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "research",
                "uid": f"uid-{name}",
                "resourceVersion": version,
                **metadata,
            },
        }

    return make
