"""How do our flows become deployments, what is made of the parameters that their runs are sent, how does one fail?

Whoever runs one imports it, wherever it was deployed from. Prefect's own default is the path of the flow's file as seen
from the current folder: for a flow of an installed package one that no worker, no container and no other folder shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, get_client
from prefect.exceptions import ParameterTypeError
from prefect.runtime import deployment
from prefect.types.entrypoint import EntrypointType

from prefect_tpu.flows.brief import brief
from prefect_tpu.flows.schedule_form import filled_in, is_wrapped
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.tasks.run_logs import edit_logs, saying_it_better

P = ParamSpec("P")
R = TypeVar("R")
_BY_MODULE = {"entrypoint_type": EntrypointType.MODULE_PATH}


class WrongParameters(UsageError, ParameterTypeError):
    """A flow was called with what it does not take; the message names each field."""


class InstalledFlow(Flow[P, R]):
    """A flow whose deployments name its module, be they made by `deploy`, `serve` or `to_deployment`.

    So no image is needed to deploy it. After `from_source`, what was said there counts.

    Errors of ours are told and raised without their way through Prefect, which has nothing to do with them.
    """

    @brief
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As Prefect's own."""
        return super().__call__(*args, **kwargs)

    async def ato_deployment(self, *args: Any, **kwargs: Any) -> Any:
        """As Prefect's own."""
        return await super().ato_deployment(*args, **{**kwargs, **_BY_MODULE})

    def to_deployment(self, *args: Any, **kwargs: Any) -> Any:
        """As Prefect's own; where an event loop runs it is to be awaited."""
        return super().to_deployment(*args, **{**kwargs, **_BY_MODULE})

    def validate_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """As Prefect's own; what the form of a schedule was not filled in with is as the deployment has it."""
        if is_wrapped(parameters):
            parameters = filled_in(parameters, _parameters_of_deployment())
        try:
            with saying_it_better():
                return super().validate_parameters(parameters)
        except ParameterTypeError as exc:
            raise WrongParameters(f"{self.name}() was called with what it does not take. {exc}") from None


def _parameters_of_deployment() -> dict[str, Any]:
    """Of the one whose run this is; none where it is of none."""
    if (found := deployment.id) is None:
        return {}
    with get_client(sync_client=True) as client:
        return client.read_deployment(found).parameters


def installed_flow(*, name: str, description: str) -> Callable[[Callable[P, R]], InstalledFlow[P, R]]:
    """The decorator of our flows. Whoever loads one logs briefly: Prefect tells an error after all code of ours."""
    edit_logs()

    def made(function: Callable[P, R]) -> InstalledFlow[P, R]:
        return InstalledFlow(function, name=name, description=description, log_prints=False)

    return made
