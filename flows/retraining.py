"""`prefect_tpu.retrain(...)`: the flow as a Python call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prefect_tpu.flows.brief import brief
from prefect_tpu.flows.call import run_to_end
from prefect_tpu.flows.options import check_names
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import shown

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

NAMED = ("model", "program", "evaluate")


@brief
def retrain(model: str, program: str, evaluate: str, **options: Any) -> dict[str, Any]:
    """Train a model again where that is due, as one Prefect flow run, and promote what came of it where it is better.

    Args:
        model: its name.
        program: what trains it, as the flow `train` takes it; no function: others must be able to run it again.
        evaluate: what judges it, alike.
        **options: further parameters of the flow `prefect_tpu.flows.retrain.retrain`.

    Returns:
        `model decision reason candidate champion checkpoint metrics rival`; of a run that trained nothing the first
        three and the champion. `decision` is `promoted`, `kept`, `declined`, `failed` or `skipped`.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        PlatformError: the Prefect server cannot be reached, or the output not be written.
        JobFailed: a job ended without its result.
        CancelledRun: of Prefect: somebody cancelled the run or stopped a job of it; call it again to go on.
    """

    for name, value in (("program", program), ("evaluate", evaluate)):
        if not isinstance(value, str):
            raise UsageError(f"{name} is {shown(value)}: name it, as path.py:function or pkg.mod:function.")

    def flow() -> Any:
        from prefect_tpu.flows.retrain import retrain as flow  # Prefect takes a second to import; shells need it not

        check_names("retrain", options, [name for name in flow.parameters.properties if name not in NAMED])
        return flow

    def given() -> dict[str, Any]:
        return {"model": model, "program": program, "evaluate": evaluate, **_with_text_for_paths(options)}

    return run_to_end(flow, given, _ended)


def _with_text_for_paths(value: Any) -> Any:
    """As parameters of a run must be, which are JSON."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {name: _with_text_for_paths(one) for name, one in value.items()}
    return [_with_text_for_paths(one) for one in value] if isinstance(value, list | tuple) else value


def _ended(state: State[Any]) -> dict[str, Any]:
    # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
    found: dict[str, Any] = state.result(_sync=True)  # type: ignore[call-overload]
    return found
