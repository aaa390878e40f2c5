"""What does a saved cluster add to a call? `cluster="block:NAME"`, alike from Python, the shell and the form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.pods import PodDefaults

BLOCK = "block:"  # then the name of a block `GKECluster`


def completed(said: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Settings of pods, completed by the block that `cluster` names, and that block's output; "" where it says none.

    What was said itself counts more. A job keeps what came out, not the block's name: changing the block changes none.

    Raises:
        UsageError: there is no such block.
        PlatformError: the Prefect server that has it cannot be reached.
    """
    name = str(said.get("cluster") or "")
    if not name.startswith(BLOCK):
        return dict(said), ""
    found = load(name.removeprefix(BLOCK))
    own = {key: value for key, value in said.items() if key != "cluster"}
    return found.completed(own), found.output


def load(name: str) -> PodDefaults:
    """What the block of this name says."""
    import httpx  # Prefect takes a second to import; only jobs that name a block pay for it

    from prefect_tpu.blocks.gke_cluster import GKECluster

    try:
        # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
        block: Any = GKECluster.load(name, _sync=True)  # type: ignore[call-arg]
    except ValueError as exc:
        raise UsageError(
            f"There is no saved cluster {name!r}, or what it says is not valid: {str(exc).rstrip('.')}. Save a block"
            " 'GKE Cluster' of this name, or name the cluster itself."
        ) from exc
    except (httpx.HTTPError, RuntimeError) as exc:
        raise PlatformError(
            f"The saved cluster {name!r} cannot be loaded: {exc}. See that PREFECT_API_URL and PREFECT_API_KEY are"
            " those of the server that has it (`prefect block ls`)."
        ) from exc
    defaults: PodDefaults = block.defaults()
    return defaults
