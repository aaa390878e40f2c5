"""What are the objects of an attempt called, and where do its hosts find each other and their folders?

The longest name is a pod's address, `<attempt>-s-<slice>-<host>.<attempt>`: JobSet writes the leader's into a label,
which has room for 63 characters. With 22 of an attempt it needs 52 and the digits of slice and host; the head's of
Pathways, `<attempt>-pathways-head-0-0.<attempt>`, is a label too, and needs exactly 63.
"""

from __future__ import annotations

from prefect_tpu.infra import layout
from prefect_tpu.infra.gcp.ownership import short_hash
from prefect_tpu.infra.pod_checks import OWN_FOLDER

# One letter, for the sake of the largest slice: the addresses of its 2,304 hosts are one environment variable of
# libtpu's, and Linux takes no more than 128 KiB for one.
SLICES = "s"
CONTAINER = "host"
HEAD, WORKERS = "pathways-head", "worker"  # with Pathways, as Google's tools call them: the one host, and who has chips
COORDINATOR_PORT = 8482  # where the hosts of an attempt meet: said to them, so that no default matters
REGIONS_PORT = 8490  # where the hosts of a flow get its regions; those meet at one of the ports after it
ARCHIVE_FILE = "host.pyz"
ARCHIVE_PREFIX = "prefect-tpu-host-"  # of the ConfigMap's name
ARCHIVE_FOLDER = f"{OWN_FOLDER}/host"  # in the container: what hosts run, read-only
SCRATCH_FOLDER = f"{OWN_FOLDER}/scratch"  # on the node's disk, gone with the pod
TERMINATION_MESSAGE = "/dev/termination-log"


def host_addresses(job: str, attempt: int, slices: int, hosts_per_slice: int) -> tuple[str, ...]:
    """The names that the cluster's DNS knows of the hosts, slice by slice, the leader's first."""
    return tuple(_address(job, attempt, index, host) for index in range(slices) for host in range(hosts_per_slice))


def coordinator(job: str, attempt: int) -> str:
    """Where the hosts meet: at the leader's."""
    return f"{_address(job, attempt, 0, 0)}:{COORDINATOR_PORT}"


def regions(job: str, attempt: int) -> str:
    """Where the hosts of a flow get its regions: at the leader's."""
    return f"{_address(job, attempt, 0, 0)}:{REGIONS_PORT}"


def head_address(job: str, attempt: int) -> str:
    """With Pathways, the one host's."""
    return _address(job, attempt, 0, 0, HEAD)


def _address(job: str, attempt: int, index: int, host: int, replicated: str = SLICES) -> str:
    jobset = layout.attempt_name(job, attempt)
    return f"{jobset}-{replicated}-{index}-{host}.{jobset}"


def archive_name(archive: bytes) -> str:
    """Of the ConfigMap with what hosts run: by its hash, so that equal ones are one."""
    return f"{ARCHIVE_PREFIX}{short_hash(archive)}"


def command(python: str, plan_url: str) -> list[str]:
    """What each host's container runs; which host it is, it finds out from its environment."""
    return [python, f"{ARCHIVE_FOLDER}/{ARCHIVE_FILE}", plan_url]
