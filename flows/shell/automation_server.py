"""Which of our automations has the Prefect server, what are they made of, and how is one put there once?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import Automation
from prefect.exceptions import ObjectNotFound

from prefect_tpu.flows.automations import NEEDS, Evaluation, Given, Pool, Ready, parsed, told
from prefect_tpu.flows.shell.prefect_server import prefect_server
from prefect_tpu.infra.errors import UsageError

PAGE = 200  # what a server gives at once
_OURS = {"id", "owner_resource", "enabled"}  # the server's, and whoever switched it off


class Done(StrEnum):
    """What became of an automation."""

    INSTALLED = "installed"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Automations:
    """Those of ours on the server of the profile in use."""

    client: SyncPrefectClient

    def given(self, block: str | None, pool: str | None, deployment: str | None) -> Given:
        """What was named. Raises `UsageError` for what is not there, or does not serve."""
        return Given(
            block=self._block(block) if block else None,
            pool=self._pool(pool) if pool else None,
            evaluation=self._evaluation(deployment) if deployment else None,
        )

    def all(self) -> list[Automation]:
        """Every one that is ours, by its name."""
        found: list[Automation] = []
        while page := self.client.read_automations(limit=PAGE, offset=len(found)):
            found += page
        return sorted((one for one in found if parsed(one.name) is not None), key=lambda one: one.name)

    def put(self, wanted: AutomationCore, *, dry_run: bool) -> Done:
        """Let there be this one by its name, and only one; that somebody switched it off stays.

        Two that install at once may make two: whoever installs next leaves one of them.
        """
        there = self.client.read_automations_by_name(wanted.name)
        if not there:
            if not dry_run:
                self.client.create_automation(wanted)
            return Done.INSTALLED
        first, *others = there
        is_same = not others and _content(first) == _content(wanted)
        if not is_same and not dry_run:
            # Rebuilt of all its fields: Prefect's client sends only those that were set.
            new = {**wanted.model_dump(exclude=_OURS), "enabled": first.enabled}
            self.client.update_automation(first.id, AutomationCore(**new))
            for other in others:
                self.remove(other)
        return Done.UNCHANGED if is_same else Done.UPDATED

    def remove(self, one: Automation) -> None:
        """Also where somebody else just did."""
        with suppress(ObjectNotFound):
            self.client.delete_automation(one.id)

    def _block(self, name: str) -> UUID:
        kind, _, own = name.partition("/")
        if not kind or not own:
            raise UsageError(f"--block {name!r} is not TYPE/NAME. Give {NEEDS[Ready.TELL]}.")
        try:
            found = self.client.read_block_document_by_name(own, kind, include_secrets=False)
        except ObjectNotFound as exc:
            raise UsageError(f"There is no block {name!r}: `prefect block ls` names all. {NEEDS[Ready.TELL]}.") from exc
        if found.block_schema is None or "notify" not in found.block_schema.capabilities:
            raise UsageError(f"Block {name!r} sends no notifications: name one that does. {NEEDS[Ready.TELL]}.")
        return found.id

    def _pool(self, name: str) -> Pool:
        try:
            return Pool(id=self.client.read_work_pool(name).id, name=name)
        except ObjectNotFound as exc:
            raise UsageError(f"There is no work pool {name!r}: `prefect work-pool ls` names all.") from exc

    def _evaluation(self, name: str) -> Evaluation:
        if name.count("/") != 1:
            raise UsageError(f"--deployment {name!r} is not FLOW/NAME, such as evaluate/local.")
        try:
            found = self.client.read_deployment_by_name(name)
        except ObjectNotFound as exc:
            raise UsageError(f"There is no deployment {name!r}: `prefect deployment ls` names all.") from exc
        takes = frozenset((found.parameter_openapi_schema or {}).get("properties", {}))
        if "output" not in told(takes):
            raise UsageError(
                f"The flow of deployment {name!r} has no parameter `output`, by which it would be told where the job's"
                " results lie: add it and deploy again."
            )
        return Evaluation(id=found.id, name=name, parameters=takes)


@contextmanager
def automations() -> Iterator[Automations]:
    """The server's. What it refuses in the block is an error of ours."""
    with prefect_server() as client:
        yield Automations(client=client)


def _content(one: AutomationCore) -> dict[str, Any]:
    return one.model_dump(exclude=_OURS)
