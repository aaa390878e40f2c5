"""Flow runs elsewhere than on the first slice of the worker's own cluster: each way leads through the same job."""

from __future__ import annotations

from typing import Any

from autoscaler import is_given_up
from objects import failed_scale_up
from played_pathways import IMAGES, add_pathways
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect_server import wait_for
from rights import HOST
from scenes import CHIPS, HOSTS, Played, Scene, Story, played
from slice_pool import IMAGE, slice_pool
from slice_runs import PATIENCE, SliceRun

from prefect_tpu.blocks import GKECluster
from prefect_tpu.flows.work_pool.template import Template

DRY, PATHWAYS_CHIPS = "v5p-32:spot", "v6e-16:spot"
STOCKOUT = "Node scale up in zones us-east5-a associated with this pod failed: GCE out of resources."
REPLICATED = "jobset.sigs.k8s.io/replicatedjob-name"
CONTEXT = "test"  # of the kubeconfig that workers have
OF_TEAM = ("image", "namespace", "service_account", "output")


def falls_back(scene: Scene) -> Played:
    """The machines of the first accelerator are not to be had, as the autoscaler says of a pod."""
    wishes = {"accelerator": DRY, "fallback_accelerators": [CHIPS]}
    run = scene.start("once", {**scene.add_slice(), **wishes}, has_region=True)
    leader = wait_for(lambda: _given_up(run), f"a pod of {run} that no node takes", PATIENCE)
    scene.cluster.api.post(f"/api/v1/namespaces/{run.namespace}/events", failed_scale_up(leader, STOCKOUT))
    run.wait_until_up(2, HOSTS)
    run.let_go_on()
    return played(run, scene.pool)


def _given_up(run: SliceRun) -> dict[str, Any] | None:
    return next((pod for pod in run.pods() if is_given_up(pod)), None)


def on_pathways(scene: Scene) -> Played:
    """The flow's own process drives all chips, beside Google's two programs."""
    add_pathways(scene.cluster, IMAGE)
    scene.add_slice(PATHWAYS_CHIPS)
    run = scene.start("once", {"backend": "pathways", "accelerator": PATHWAYS_CHIPS, "pathways": IMAGES})
    run.wait_until_up(1, 1)
    assert {pod["metadata"]["labels"][REPLICATED] for pod in run.pods()} == {"pathways-head", "worker"}
    run.let_go_on()
    return played(run, scene.pool)


def in_a_saved_cluster(scene: Scene) -> Played:
    """A pool that knows of no cluster, and a deployment that names one which the team has saved."""
    server = scene.pool.server
    with slice_pool(scene.pool.stage, server, scene.name, _without_team) as pool:
        saved = GKECluster(
            context=CONTEXT, namespace=pool.namespace, image=IMAGE, service_account=HOST, output=pool.output
        )
        with temporary_settings({PREFECT_API_URL: server.environment["PREFECT_API_URL"]}):
            saved.save(scene.name)
        pool.workers.start()
        run = pool.start(pool.deploy("once", accelerator="cpu-1x1", cluster=f"block:{scene.name}"))
        run.let_go_on()
        return played(run, pool)


def _without_team(template: Template) -> Template:
    fields = template["variables"]["properties"]
    said = {name: {**field, "default": ""} if name in OF_TEAM else field for name, field in fields.items()}
    return {**template, "variables": {**template["variables"], "properties": said}}


STORIES = [
    Story(name="falls-back", play=falls_back, waits=True),
    Story(name="on-pathways", play=on_pathways),
    Story(name="saved-cluster", play=in_a_saved_cluster),
]
