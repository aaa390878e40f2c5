"""`prefect_tpu.train(...)`: the flow as a Python call, with functions."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.errors import JobFailed, UsageError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import values
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.request import default_output, job_folder
from prefect_tpu.infra.storage import LocalStorage, open_storage

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

# A temporary server makes its database on the first start in a home, which takes longer than Prefect's 20 s.
FIRST_SERVER_SECONDS = 180


def train(
    program: str | Callable[..., Any],
    accelerator: str = "cpu",
    *,
    params: Mapping[str, Any] | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
    name: str | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Any,
) -> JobResult:
    """Train as one Prefect flow run, and wait for its end.

    Args:
        program: a function, or what the flow `train` takes. A function travels
            in the job's payload, never as a Prefect parameter.
        accelerator: such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.
        params: keyword arguments of the function.
        data: name → file or folder, laid down for the program to read.
        name: of the job; call with the same name again to go on where it stopped.
        output: folder of all jobs; `$PREFECT_TPU_OUTPUT` or the user's data directory by default.
        **options: further parameters of the flow `prefect_tpu.flows.train.train`.

    Returns:
        The job's result; `value` is what the leader returned.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        JobFailed: the job ended without its result, also by being stopped or its run cancelled.
    """
    # Prefect takes a second to import; shells need it not.
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS, temporary_settings

    from prefect_tpu.flows.train import train as flow

    params = _mapping("params", params)
    paths = {key: _path(f"data[{key!r}]", place) for key, place in _mapping("data", data).items()}
    output = _path("output", output or default_output())
    if callable(program):
        name = name or f"t-{secrets.token_hex(6)}"
        program = _send(program, params, job_folder(output, name))
    parameters = {"program": program, "accelerator": accelerator, "params": params, "data": paths, "output": output}
    parameters |= options
    patience = {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: FIRST_SERVER_SECONDS}
    with temporary_settings(set_defaults=patience):
        return _with_value(_ended(flow(**parameters, name=name or "", return_state=True)))


def _mapping(what: str, given: object) -> dict[str, Any]:
    found = {} if given is None else given
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise UsageError(f"{what} is {given!r}: give a dictionary by name, such as {what}={{'name': …}}.")
    return dict(found)


def _path(what: str, given: object) -> str:
    try:
        return os.fsdecode(os.fspath(given))  # type: ignore[call-overload]
    except TypeError:
        raise UsageError(f"{what} is {given!r}: give the path of a file or folder.") from None


def _send(function: Callable[..., Any], params: Mapping[str, Any], folder: str) -> str:
    """Put the function into the job's payload; the name under which the flow finds it there."""
    program = pack_function(function, params).send(open_storage(folder))
    return f"payload:{program.payload}:{program.target}"


def _ended(state: State[Any]) -> JobResult:
    """The flow's result, or its exception. A run that was cancelled keeps its job's result in its state."""
    stopped = state.is_cancelled() and state.data is not None
    # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
    ended: Any = state.result(raise_on_failure=not stopped, _sync=True)  # type: ignore[call-overload]
    result = JobResult.from_json(ended)
    if result.failure is not None:
        raise JobFailed(result.job, result.failure)
    return result


def _with_value(result: JobResult) -> JobResult:
    """The leader's value itself, unpickled where it is more than JSON."""
    last = result.attempts[-1].number
    return replace(result, value=values.load(LocalStorage(result.output), last))
