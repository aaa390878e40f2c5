"""What does a saved cluster add to a call? `cluster="block:NAME"`, alike from Python, the shell and the form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.pods import PodDefaults, in_pods
from prefect_tpu.infra.request import default_output

BLOCK = "block:"  # then the name of a block `GKECluster`


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where the hosts of a call run, and where its jobs lie.

    settings: `backend` and `pods` of a job, as far as anything was said of them.
    output: the folder of all jobs.
    """

    settings: dict[str, Any]
    output: str


def placed(backend: str | None, said: Mapping[str, Any], output: str | None) -> Placed:
    """What follows from what was said of the backend, the pods and the output; empty text says nothing.

    Raises as `completed`, and `UsageError` for what contradicts itself, lacks an image or names no output.
    """
    of_pods, saved_output = completed(said)
    settings = in_pods(backend, of_pods)
    return Placed(settings=settings, output=output or saved_output or default_output(settings.get("backend", "local")))


def completed(said: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Settings of pods, completed by the block that `cluster` names, and that block's output; "" where it says none.

    What was said itself counts more. Of saved clusters that are fallen back on only the address is taken. A job keeps
    what came out, not the block's name: changing the block changes none.

    Raises:
        UsageError: there is no such block.
        PlatformError: the Prefect server that has it cannot be reached.
    """
    own, name = _with_addresses(said), str(said.get("cluster") or "")
    if not name.startswith(BLOCK):
        return own, ""
    found = load(name.removeprefix(BLOCK))
    del own["cluster"]
    return found.completed(own), found.output


def _with_addresses(said: Mapping[str, Any]) -> dict[str, Any]:
    """Of saved clusters that are only fallen back on, nothing but which cluster each is."""
    others = said.get("fallback_clusters")
    if not isinstance(others, list | tuple):
        return dict(said)
    return {**said, "fallback_clusters": tuple(map(_address, others))}


def _address(cluster: Any) -> Any:
    if not isinstance(cluster, str) or not cluster.startswith(BLOCK):
        return cluster
    found = load(cluster.removeprefix(BLOCK)).pods.get("cluster")
    if not found:
        raise UsageError(
            f"The saved cluster {cluster.removeprefix(BLOCK)!r} names no cluster, so it cannot be fallen back on: give"
            " it a project, location and cluster, or a context."
        )
    return found


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
            f"The saved cluster {name!r} cannot be loaded: {str(exc).rstrip('.')}. See that PREFECT_API_URL and"
            " PREFECT_API_KEY are those of the server that has it (`prefect block ls`)."
        ) from exc
    defaults: PodDefaults = block.defaults()
    return defaults
