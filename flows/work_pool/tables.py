"""What came of a run's slices, for people? A table of its attempts among the run's artifacts, as `train` leaves one."""

from __future__ import annotations

import logging

import anyio.to_thread
import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import PrefectException

from prefect_tpu.flows.work_pool.busy_server import asked
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.summary import markdown

log = logging.getLogger(__name__)
OF_SLICES = "These are the run's slices; how its flow ended is said by the run's state."


class Tables:
    """Leaves them with a Prefect server. Never raises for what a server or an output says: the run has its end.

    Only whoever holds the job's lease leaves its table, so that nobody else does meanwhile.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client

    async def leave(self, run: FlowRun, storage: Storage) -> None:
        """That of an ended job. Not again where the newest one of the run says the same."""
        try:
            result = await anyio.to_thread.run_sync(history.read_result, storage)
            if result is None:
                return
            text = f"{OF_SLICES}\n\n{await anyio.to_thread.run_sync(markdown, result, None)}"
            await asked(lambda: self._put(run, f"attempts-{result.job}", text))
        except (PrefectTpuError, OSError, httpx.HTTPError, PrefectException) as exc:
            log.info("The table of attempts of flow run %s could not be shown: %s", run.id, exc)

    async def _put(self, run: FlowRun, key: str, text: str) -> None:
        wanted = ArtifactFilter(key=ArtifactFilterKey(any_=[key]), flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        newest = ArtifactSort.CREATED_DESC
        found = await self._client.read_artifacts(artifact_filter=wanted, sort=newest, limit=1)
        if found and found[0].data == text:
            return
        about = f"Slices of {run.name}"
        made = ArtifactCreate(key=key, type="markdown", description=about, data=text, flow_run_id=run.id)
        await self._client.create_artifact(made)
