"""The same failure as JobSet alone meets it: a JobSet that Kubernetes may restart, on the same nodes."""

from __future__ import annotations

from case import ACCELERATOR, HOSTS, STAY, Case
from control_plane import Object
from objects import JOBSETS, TPU_TOLERATION
from stage import Stage

from prefect_tpu.infra.accelerators import resolve

NAME = "plain"
RESTARTS = "jobset.sigs.k8s.io/restart-attempt"
SPOT_TOLERATION = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}

_SCRIPT = """
[ "$RESTARTS" = 0 ] || exit 0
trap 'exit 143' TERM
touch {up}-$JOB_COMPLETION_INDEX
if [ "$JOB_COMPLETION_INDEX" = 1 ]; then
  until [ -e {strike} ]; do sleep 0.1 & wait $!; done
  {act}
fi
{stay}
"""


def jobset(stage: Stage, case: Case) -> Object:
    """What somebody writes who has only JobSet: two restarts, and placed as a whole."""
    job = {
        "parallelism": HOSTS,
        "completions": HOSTS,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": _pod(stage, case)},
    }
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    return {
        "kind": "JobSet",
        "metadata": {"name": NAME, "annotations": exclusive},
        "spec": {
            "failurePolicy": {"maxRestarts": 2},
            "replicatedJobs": [{"name": "s", "template": {"spec": job}}],
        },
    }


def send(stage: Stage, case: Case) -> None:
    """Create it."""
    stage.make(JOBSETS.removeprefix("/apis/"), "jobsets", jobset(stage, case))


def _pod(stage: Stage, case: Case) -> Object:
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 10,
        "nodeSelector": stage.selector,
        "tolerations": [TPU_TOLERATION, SPOT_TOLERATION],
        "containers": [_container(stage, case)],
        "volumes": [
            {
                "name": "shared",
                "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": stage.name}},
            }
        ],
    }
    if case.change_plain is not None:
        case.change_plain(pod)
    return pod


def _container(stage: Stage, case: Case) -> Object:
    chips = {"google.com/tpu": str(resolve(ACCELERATOR).chips_per_host)}
    script = _SCRIPT.format(
        up=stage.folder / f"up-{NAME}",
        strike=stage.strike_file(NAME),
        act=case.act.format(folder=stage.folder),
        stay=STAY,
    )
    return {
        "name": "main",
        "image": "pod-python",
        "command": ["sh", "-c", script],
        "resources": {"requests": chips, "limits": chips},
        "env": [{"name": "RESTARTS", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{RESTARTS}']"}}}],
        "volumeMounts": [{"name": "shared", "mountPath": str(stage.folder)}],
    }
