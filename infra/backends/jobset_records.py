"""How did a host end, by its own account? From the job's folder, or from its pod's termination message."""

from __future__ import annotations

from prefect_tpu.infra import contract
from prefect_tpu.infra.backends.jobset_facts import Facts, PodFacts
from prefect_tpu.infra.contract import ExitCode, HostRecord, ProgramError

LONGEST_WORDS = 400


def record_of(facts: Facts, host: int) -> HostRecord | None:
    """From the folder, where it is whole; else from the termination message, which needs no storage."""
    pod, output = facts.pod(host), facts.outputs.get(host)
    if output is not None and output.record is not None:
        return output.record
    if pod is None or pod.container.ended is None:
        return None
    said = pod.container.ended.message
    try:
        return HostRecord.from_json(said) if said.lstrip().startswith("{") else _of_a_bootstrap(facts, host, pod)
    except contract.ContractError:
        return None


def is_own_end(facts: Facts, host: int) -> bool:
    """Whether it says that it has ended, and for no reason that lies with others."""
    record = record_of(facts, host)
    return record is not None and record.stop_reason is None and not record.lost_peer


def last_words(pod: PodFacts) -> str:
    """What a container that left no record wrote at its end, on one line; empty where it wrote nothing."""
    said = " ".join(pod.container.ended.message.split()) if pod.container.ended else ""
    return said if len(said) <= LONGEST_WORDS else f"…{said[-LONGEST_WORDS:]}"


def _of_a_bootstrap(facts: Facts, host: int, pod: PodFacts) -> HostRecord | None:
    """Where not even our words could be loaded, the runner's exit code and the log tell why."""
    said = last_words(pod).removeprefix("prefect-tpu: ")
    if pod.container.exit_code != ExitCode.PAYLOAD_REFUSED or not said:
        return None
    error = ProgramError(type="CannotBegin", message=said, traceback="")
    return HostRecord(attempt=facts.attempt, host=host, exit_code=ExitCode.PAYLOAD_REFUSED, error=error)
