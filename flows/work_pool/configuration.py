"""What is asked for one run? The form's fields as they came out of the pool, the deployment and the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from prefect.workers.base import BaseJobConfiguration
from pydantic import PrivateAttr, ValidationError, ValidatorFunctionWrapHandler, model_validator

from prefect_tpu.flows.work_pool.environment import worker_settings
from prefect_tpu.flows.work_pool.variables import SliceFields
from prefect_tpu.infra.job_checks import nearest, shown
from prefect_tpu.infra.pods import PodSettings

PREFECT = "prefect.io/"  # how the labels begin that Prefect gives
SECRET_BLOCKS = "prefect.blocks.secret."
BLOCKS = "prefect.blocks."  # how a reference to one begins, inside its braces
COMMAND = "python -m prefect flow-run execute"  # of a run that brings none
PATHWAYS = "pathways"  # the field, and how others begin that are settings of Pathways
OF_PODS = tuple(name for name in PodSettings.__dataclass_fields__ if name in {*SliceFields.model_fields} - {PATHWAYS})


class TpuSliceConfiguration(BaseJobConfiguration, SliceFields):
    """The fields of the form, filled in. A template that lacks some has their defaults."""

    _refusal: str | None = PrivateAttr(None)
    _hidden: frozenset[str] = PrivateAttr(frozenset())
    _ignored: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _keep_refusal(cls, data: Any, handler: ValidatorFunctionWrapHandler) -> Self:
        """A value that is none is told when the run is submitted: raised here, Prefect would say no more than that."""
        try:
            made: Self = handler(data)
        except ValidationError as exc:
            if not isinstance(data, dict):
                raise
            wrong = {str(error["loc"][0]): str(error["msg"]) for error in exc.errors() if error["loc"]}
            if not wrong.keys() & data.keys():
                raise
            made = handler({name: value for name, value in data.items() if name not in wrong})
            made._refusal = "; ".join(f"{name} is {_shown(name, data.get(name))}: {why}" for name, why in wrong.items())
        return made

    @classmethod
    async def from_template_and_values(
        cls, base_job_template: dict[str, Any], values: dict[str, Any], client: Any = None
    ) -> Self:
        """As Prefect makes it; remembers which variables of the environment came from blocks."""
        secret = _of_secret_blocks(values)
        values = {name: value for name, value in values.items() if name not in secret}
        made: Self = await super().from_template_and_values(base_job_template, values, client=client)
        made._hidden = frozenset(_from_blocks(base_job_template, values))
        unknown = _unknown(base_job_template, values)
        refused = [f"{name} is no variable of the work pool ({why})" for name, why in unknown.items() if why]
        refused += [f"{name} may not come from a Secret block, which is kept secret in env alone" for name in secret]
        made._refusal = "; ".join([*([made._refusal] if made._refusal else []), *refused]) or None
        made._ignored = tuple(name for name, why in unknown.items() if not why)
        return made

    @classmethod
    def _base_environment(cls) -> dict[str, str]:
        """As Prefect's own, and read once: for each run it would take as long as all the rest."""
        return dict(worker_settings().values)

    @staticmethod
    def _base_flow_run_command() -> str:
        """`python` is the interpreter of the hosts, which need no `prefect` on their path then."""
        return COMMAND

    @property
    def refusal(self) -> str | None:
        """What of it cannot be used, and why."""
        return self._refusal

    @property
    def ignored(self) -> tuple[str, ...]:
        """Variables that were said and mean nothing here."""
        return self._ignored

    @property
    def hidden(self) -> frozenset[str]:
        """Variables of the environment whose values came from Prefect blocks: they may be secret."""
        return self._hidden

    @property
    def said_of_pods(self) -> dict[str, Any]:
        """Settings of pods by name, as far as anybody said one."""
        said = {name: getattr(self, name) for name in OF_PODS if getattr(self, name) != _unsaid(name)}
        own = {name: value for name, value in self.labels.items() if not name.startswith(PREFECT)}
        return {**said, **({"labels": own} if own else {}), **({"pathways": it} if (it := self._pathways) else {})}

    @property
    def _pathways(self) -> dict[str, Any]:
        """Of Pathways alone; what has a field of its own counts more."""
        flat = {name: getattr(self, name) for name in SliceFields.model_fields if name.startswith(f"{PATHWAYS}_")}
        said = {name.removeprefix(f"{PATHWAYS}_"): value for name, value in flat.items() if value != _unsaid(name)}
        return {**self.pathways, **said}

    @property
    def given_by_prefect(self) -> dict[str, str]:
        """Of which run, flow, deployment and pool the objects are, and its name: never as labels.

        The observer of a Kubernetes worker in the same cluster takes every pod and Job with such labels for its own.
        """
        told = {name: value for name, value in self.labels.items() if name.startswith(PREFECT)}
        kept = {f"{PREFECT}{name}": told.get(f"{PREFECT}{name}", "") for name in _TOLD}
        return {name: value for name, value in {**kept, f"{PREFECT}name": self.name or ""}.items() if value}


# Not those that change from worker to worker, or with time.
_TOLD = ("flow-run-id", "flow-run-name", "flow-name", "deployment-name", "work-pool-name")


def _shown(name: str, value: Any) -> str:
    """In a message; what has parts, or was to have some, may hold what nobody may read."""
    field = SliceFields.model_fields.get(name)
    is_plain = field is not None and isinstance(field.get_default(call_default_factory=True), str | int | float)
    return shown(value) if is_plain and isinstance(value, str | int | float) else f"of type {type(value).__name__}"


def _unsaid(name: str) -> Any:
    return SliceFields.model_fields[name].default


def _unknown(template: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """What was said that the pool has no variable for, and what to do; no word where it is like none of them.

    Prefect drops it without a word, and a slice that nobody meant would be asked for.
    """
    known = template["variables"].get("properties", {})
    names = dict.fromkeys(name.partition(".")[0] for name in values)
    newer = "the pool is of an older version, so run `prefect-tpu pool update`"
    return {
        name: newer if name in SliceFields.model_fields else nearest(name, known) for name in names if name not in known
    }


def _of_secret_blocks(values: Mapping[str, Any]) -> list[str]:
    """What would be written down with the job, or shown."""
    return [
        name
        for name, value in values.items()
        if name.partition(".")[0] != "env" and isinstance(value, str) and SECRET_BLOCKS in value
    ]


def _from_blocks(template: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Names in `env` that refer to a block, after all that is said of them; what is said last counts."""
    properties = template["variables"].get("properties", {})
    dotted = {name.removeprefix("env."): value for name, value in values.items() if name.startswith("env.")}
    layers = (template["job_configuration"].get("env"), properties.get("env", {}).get("default"), dotted)
    said: dict[str, Any] = {}
    for layer in (*layers, values.get("env")):
        said |= layer if isinstance(layer, dict) else {}
    return [name for name, value in said.items() if isinstance(value, str) and BLOCKS in value]
