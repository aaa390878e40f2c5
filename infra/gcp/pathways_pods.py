"""What are the pods of Pathways? The head: its resource manager, its proxy and the program; and a worker per machine.

Both begin as the pod of an ordinary host, so whatever a job says of its pods means the same here: of the program it is
the head's, of the chips and how they are paid for the workers'. The programs of Pathways are Google's images; nothing
of ours is in them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp import placement
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.gcp.pod_template import pod_template, resources, security
from prefect_tpu.infra.pathways import PROXY_PORT, PathwaysSettings

MANAGER, PROXY, WORKER, COLOCATED = "pathways-rm", "pathways-proxy", "pathways-worker", "colocated-python"
_MANAGER_PORT, _WORKER_PORT, _COLOCATED_PORT = 29001, 29005, 50051
_NEXT = 1  # the manager and the workers listen at the port beside theirs too
_LIBTPU_PORTS = (8471, 8080)
# What Google's own tools ask for; programs of many slices need more.
_MANAGER_ROOM = {"cpu": "8", "memory": "32G"}
_PROXY_ROOM = {"cpu": "16", "memory": "100G"}
# In Pathways' words. A generation that is not here it does not drive.
INSTANCES = {"v4": "tpuv4", "v5e": "tpuv5e", "v5p": "tpuv5", "v6e": "tpuv6e", "tpu7x": "tpu7x"}
_LABEL = "jobset.sigs.k8s.io"  # JobSet's own, on each pod
_SHARED, _BESIDE = "pathways-tmp", "pathways-colocated"  # volumes
_FOLDERS = {_SHARED: "/tmp", _BESIDE: "/tmp/colocated"}
Object = dict[str, Any]


def head_template(plan: PodPlan, archive_name: str) -> Object:
    """One pod without chips: the program's container, which ends the attempt, and two beside it that end with it."""
    settings = of(plan)
    pods = replace(plan.pods, reservation=None, provisioning_request=None)
    template = pod_template(replace(plan, shape=resolve("cpu"), pods=pods, avoid=()), archive_name)
    spec = {name: value for name, value in template["spec"].items() if name != "nodeSelector"}  # that is the workers'
    pool = {"nodeSelector": {placement.POOL: settings.head_pool}} if settings.head_pool else {}
    return _with(
        {**template, "spec": {**spec, **pool}},
        initContainers=[_manager(plan, settings), _proxy(plan, settings)],
        volumes=[*template["spec"]["volumes"], {"name": _SHARED, "emptyDir": {}}],
        **_network(settings),
        **({} if plan.pods.queue else {"affinity": placement.not_on_spot()}),
    )


def worker_template(plan: PodPlan) -> Object:
    """A pod on each machine with chips. It has nothing of the program's but its rights."""
    settings = of(plan)
    pods = replace(plan.pods, volumes={}, secrets={}, cpu=None, memory=None, ephemeral_storage=None)
    bare = replace(plan, pods=pods)
    template = pod_template(bare, "")
    beside = settings.colocated_python
    volumes = [_SHARED, *([_BESIDE] if beside else [])]
    return _with(
        template,
        restartPolicy="OnFailure" if settings.elastic_slices else "Never",
        containers=[_worker(bare, settings)],
        volumes=[{"name": name, "emptyDir": {"medium": "Memory"} if name == _BESIDE else {}} for name in volumes],
        **({"initContainers": [_colocated(beside)]} if beside else {}),
        **_network(settings),
    )


def of(plan: PodPlan) -> PathwaysSettings:
    """What the job says of Pathways."""
    return plan.pods.pathways or PathwaysSettings()


def scratch(plan: PodPlan) -> str:
    """The folder of a bucket that Pathways writes to: named, else one of this attempt's in the job's output."""
    return of(plan).scratch or f"{plan.hosts.output}/{layout.pathways(plan.hosts.attempt)}"


def _with(template: Object, **more: Any) -> Object:
    return {**template, "spec": {**template["spec"], **more}}


def _network(settings: PathwaysSettings) -> Object:
    """The cluster's, where pods have the rights of their service account, and two attempts may share a machine.

    The network of the machines takes the rights of the machines with it.
    """
    return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if settings.host_network else {}


def _manager(plan: PodPlan, settings: PathwaysSettings) -> Object:
    flags = [
        f"--server_port={_MANAGER_PORT}",
        f"--gcs_scratch_location={scratch(plan)}",
        "--node_type=resource_manager",
        f"--instance_count={plan.hosts.slices}",
        f"--instance_type={INSTANCES[plan.shape.generation]}:{plan.shape.topology}",
        *settings.manager_flags,
    ]
    environment = [
        _from_label("REPLICATED_JOB_NAME", "replicatedjob-name"),
        _from_label("JOBSET_NAME", "jobset-name"),
        _from_label("HOST_ADDRESS", "coordinator"),
        _said("TPU_SKIP_MDS_QUERY", "true"),
    ]
    asked = {"cpu": settings.manager_cpu, "memory": settings.manager_memory}
    room = _room(plan, _MANAGER_ROOM, asked)
    ports = (_MANAGER_PORT, _MANAGER_PORT + _NEXT)
    return {**_beside(MANAGER, settings.images().server, flags, environment, ports), **room}


def _proxy(plan: PodPlan, settings: PathwaysSettings) -> Object:
    flags = [
        f"--server_port={PROXY_PORT}",
        f"--resource_manager_address=$(PATHWAYS_HEAD):{_MANAGER_PORT}",
        f"--gcs_scratch_location={scratch(plan)}",
        *([f"--num_elastic_slices={settings.elastic_slices}"] if settings.elastic_slices else []),
        *(["--sidecar_name=external"] if settings.colocated_python else []),
        *settings.proxy_flags,
    ]
    room = _room(plan, _PROXY_ROOM, {"cpu": settings.proxy_cpu, "memory": settings.proxy_memory})
    head = [_from_label("PATHWAYS_HEAD", "coordinator")]
    return {**_beside(PROXY, settings.images().proxy, flags, head, (PROXY_PORT,)), **room}


def _worker(plan: PodPlan, settings: PathwaysSettings) -> Object:
    """Which slice it is of it is told by us: GKE counts the head as a slice too."""
    flags = [
        f"--server_port={_WORKER_PORT}",
        f"--resource_manager_address=$(PATHWAYS_HEAD):{_MANAGER_PORT}",
        f"--gcs_scratch_location={scratch(plan)}",
        *_of_colocated(settings),
        *settings.worker_flags,
    ]
    environment = [
        _from_label("PATHWAYS_HEAD", "coordinator"),
        _from_label("MEGASCALE_NUM_SLICES", "replicatedjob-replicas"),
        _from_label("MEGASCALE_SLICE_ID", "job-index"),
        _from_label("MEGASCALE_COORDINATOR_ADDRESS", "coordinator"),
        _said("MEGASCALE_GRPC_ENABLE_XOR_TRACER", "false"),
        _said("XCLOUD_ENVIRONMENT", "GCP"),
        _said("TPU_MIN_LOG_LEVEL", "0"),
        _said("TF_CPP_MIN_LOG_LEVEL", "0"),
    ]
    ports = (_WORKER_PORT, _WORKER_PORT + _NEXT, *_LIBTPU_PORTS)
    container = _container(WORKER, settings.images().server, flags, environment, ports)
    mounts = [*container["volumeMounts"], *([_mount(_BESIDE)] if settings.colocated_python else [])]
    return {**container, **resources(plan), "securityContext": security("tpu"), "volumeMounts": mounts}


def _of_colocated(settings: PathwaysSettings) -> list[str]:
    if settings.colocated_python is None:
        return []
    return ["--sidecar_name=external", f"--cloud_pathways_sidecar_shm_directory={_FOLDERS[_BESIDE]}"]


def _colocated(image: str) -> Object:
    environment = [
        _said("GRPC_SERVER_ADDRESS", f"0.0.0.0:{_COLOCATED_PORT}"),
        _said("PYTHONUNBUFFERED", "1"),
        _said("CLOUD_PATHWAYS_SIDECAR_SHM_DIRECTORY", _FOLDERS[_BESIDE]),
    ]
    container = _beside(COLOCATED, image, [], environment, (_COLOCATED_PORT,))
    return {**container, "volumeMounts": [*container["volumeMounts"], _mount(_BESIDE)]}


def _beside(name: str, image: str, flags: list[str], environment: list[Object], ports: tuple[int, ...]) -> Object:
    """A container that starts before the pod's own and ends with it. Nobody waits until it answers: its client does."""
    return {**_container(name, image, flags, environment, ports), "restartPolicy": "Always"}


def _container(name: str, image: str, flags: list[str], environment: list[Object], ports: tuple[int, ...]) -> Object:
    return {
        "name": name,
        "image": image,
        **({"args": flags} if flags else {}),
        "env": environment,
        "ports": [{"containerPort": port} for port in ports],
        "securityContext": security("cpu"),
        "volumeMounts": [_mount(_SHARED)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _room(plan: PodPlan, usual: dict[str, str], asked: dict[str, str | None]) -> Object:
    """What was asked for, else the usual. A queue is asked for nothing that nobody named, as for other pods."""
    known = {} if plan.pods.queue else usual
    requests = {**known, **{name: quantity for name, quantity in asked.items() if quantity is not None}}
    return {"resources": {"requests": requests}} if requests else {}


def _mount(name: str) -> Object:
    return {"name": name, "mountPath": _FOLDERS[name]}


def _said(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def _from_label(name: str, label: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_LABEL}/{label}']"}}}
