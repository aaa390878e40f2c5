"""An event belongs to its run and to where that came from."""

from __future__ import annotations

from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun, WorkPool

from prefect_tpu.tasks.belonging import deployment_of, related, related_here


def test_an_event_belongs_to_the_run_and_where_it_came_from() -> None:
    deployment, flow = uuid4(), uuid4()
    run = FlowRun(flow_id=flow, deployment_id=deployment, name="red-fox")
    pool = WorkPool(name="tpu", type="tpu-slice", id=UUID(int=7), default_queue_id=uuid4())
    found = related(run, pool)
    assert {one["prefect.resource.id"] for one in found} == {
        f"prefect.flow-run.{run.id}",
        f"prefect.flow.{flow}",
        f"prefect.deployment.{deployment}",
        f"prefect.work-pool.{UUID(int=7)}",
    }
    assert found[-1]["prefect.work-pool.type"] == "tpu-slice" and deployment_of(found) == str(deployment)
    run.deployment_id = None
    assert [one["prefect.resource.role"] for one in related(run, pool)] == ["flow-run", "flow", "work-pool"]
    assert deployment_of(related(run, pool)) == ""


def test_a_run_knows_its_pool_itself() -> None:
    run = FlowRun(flow_id=uuid4(), work_pool_id=UUID(int=7), work_pool_name="local")
    assert related(run)[-1] == {
        "prefect.resource.id": f"prefect.work-pool.{UUID(int=7)}",
        "prefect.resource.role": "work-pool",
        "prefect.resource.name": "local",
    }


def test_outside_a_run_it_belongs_to_nothing() -> None:
    assert related_here() == []
