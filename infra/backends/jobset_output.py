"""What did the hosts of an attempt write into the job's folder? One list a look, and reads of what changed only."""

from __future__ import annotations

from collections.abc import Mapping

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.backends.jobset_facts import OutputFacts
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.storage import Facts, Storage


class OutputLook:
    """What was read so far; `look` reads on. Synchronous: storages are."""

    def __init__(self, storage: Storage, attempt: int, hosts: int) -> None:
        self._storage, self._attempt, self._hosts = storage, attempt, hosts
        self._known: dict[str, Facts] = {}
        self._contents: dict[str, bytes | None] = {}

    def look(self) -> Mapping[int, OutputFacts]:
        """Host → what it wrote, of those that wrote something."""
        names = self._storage.facts(layout.hosts(self._attempt))
        found = {host: self._of_host(host, names) for host in range(self._hosts)}
        self._known = names
        return {host: facts for host, facts in found.items() if facts != OutputFacts()}

    def _of_host(self, host: int, names: Mapping[str, Facts]) -> OutputFacts:
        record, damage = _read_record(self._content(layout.record(self._attempt, host), names))
        return OutputFacts(
            has_started=layout.started(self._attempt, host) in names,
            progress=HostProgress.from_json(self._content(layout.progress(self._attempt, host), names)),
            record=record,
            damage=damage,
        )

    def _content(self, name: str, names: Mapping[str, Facts]) -> bytes | None:
        if name not in names:
            return None
        if names[name] != self._known.get(name):
            self._contents[name] = self._storage.get(name)
        return self._contents.get(name)


def _read_record(raw: bytes | None) -> tuple[HostRecord | None, str]:
    """The record, and what is wrong with it where it cannot be read."""
    if raw is None:
        return None, ""
    try:
        return HostRecord.from_json(raw), ""
    except contract.ContractError as exc:
        return None, str(exc)
