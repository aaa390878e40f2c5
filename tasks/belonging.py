"""What does an event of a slice belong to? Its run, flow, deployment and pool: Prefect shows it with each of them."""

from __future__ import annotations

from uuid import UUID

from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.context import FlowRunContext

Related = list[dict[str, str]]


def related(run: FlowRun, pool: WorkPool | None = None) -> Related:
    """Of a run's slice. pool: whose run it is, where more is known of it than the run says."""
    found = [_resource("flow-run", run.id, run.name), _resource("flow", run.flow_id)]
    if run.deployment_id is not None:
        found.append(_resource("deployment", run.deployment_id))
    if pool is not None:
        found.append({**_resource("work-pool", pool.id, pool.name), "prefect.work-pool.type": pool.type})
    elif run.work_pool_id is not None:
        found.append(_resource("work-pool", run.work_pool_id, run.work_pool_name))
    return found


def related_here() -> Related:
    """Of the flow run that this is called in, by what it knows of itself: the server is asked nothing."""
    context = FlowRunContext.get()
    return related(context.flow_run) if context is not None and context.flow_run is not None else []


def deployment_of(belongs_to: Related) -> str:
    """The id of the deployment, as a label to tell runs apart by; empty where there is none."""
    ids = {one["prefect.resource.role"]: one["prefect.resource.id"] for one in belongs_to}
    return ids.get("deployment", "").rpartition(".")[2]


def _resource(role: str, number: UUID, name: str | None = None) -> dict[str, str]:
    told = {"prefect.resource.id": f"prefect.{role}.{number}", "prefect.resource.role": role}
    return {**told, **({"prefect.resource.name": name} if name else {})}
