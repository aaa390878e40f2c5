"""Is there a Prefect server, and can it be reached? The shell needs none; `train` and deployments do."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from prefect_tpu.infra.checks import Check, fail, ok, warn

NAME = "prefect"
ANSWER_SECONDS = 4.0
NO_SERVER = "no PREFECT_API_URL: each call of `prefect_tpu.train` starts a server of its own"


def server() -> Check:
    """The server of the active profile or environment."""
    from prefect.settings import get_current_settings  # takes a second; only this check pays for it

    settings = get_current_settings()
    url = settings.api.url
    if not url:
        return warn(NAME, NO_SERVER, "To see runs in a UI: prefect server start, then set PREFECT_API_URL.")
    return ask(url, _headers(settings))


def ask(url: str, headers: dict[str, str]) -> Check:
    """What the server at this URL says of itself."""
    import httpx

    shown = without_secrets(url)
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=ANSWER_SECONDS) as client:
            version = client.get("/admin/version")
            if version.status_code in (401, 403):
                return fail(NAME, f"{shown} refuses the key ({version.status_code})", "Set PREFECT_API_KEY anew.")
            version.raise_for_status()
            pools = client.post("/work_pools/filter", json={"limit": 50})
    except httpx.HTTPStatusError as exc:
        return fail(NAME, f"{shown} answers {exc.response.status_code}", "Check that the URL ends in /api.")
    except httpx.HTTPError as exc:
        return fail(NAME, f"{shown} cannot be reached ({type(exc).__name__})", "Start it, or correct PREFECT_API_URL.")
    return ok(NAME, f"{shown}, version {_text(version)}, {_pools(pools)}")


def without_secrets(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, f"{host}{port}", parts.path, "", ""))


def _headers(settings: Any) -> dict[str, str]:
    """As Prefect's own client sends them."""
    if settings.api.key:
        return {"Authorization": f"Bearer {settings.api.key.get_secret_value()}"}
    if settings.api.auth_string:
        import base64

        text = settings.api.auth_string.get_secret_value().encode()
        return {"Authorization": f"Basic {base64.b64encode(text).decode()}"}
    return {}


def _text(answer: Any) -> str:
    try:
        return str(answer.json())
    except ValueError:
        return "unknown"


def _pools(answer: Any) -> str:
    try:
        names = [str(pool["name"]) for pool in answer.json()] if answer.status_code == 200 else []
    except (ValueError, TypeError, KeyError):
        names = []
    return f"work pools {', '.join(names)}" if names else "no work pool (only deployments need one)"
