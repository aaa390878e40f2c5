"""How did a host end, by its own account? From the job's folder, or from its pod's termination message."""

from __future__ import annotations

from prefect_tpu.infra import contract
from prefect_tpu.infra.backends.jobset_facts import Facts
from prefect_tpu.infra.contract import HostRecord


def record_of(facts: Facts, host: int) -> HostRecord | None:
    """From the folder, where it is whole; else from the termination message, which needs no storage."""
    pod, output = facts.pod(host), facts.outputs.get(host)
    if output is not None and output.record is not None:
        return output.record
    said = pod.container.ended.message if pod and pod.container.ended else ""
    if not said.lstrip().startswith("{"):  # where a runner could not even start, these are its last words
        return None
    try:
        return HostRecord.from_json(said)
    except contract.ContractError:
        return None
