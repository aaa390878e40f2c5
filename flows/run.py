"""`@prefect_tpu.run(accelerator=…)`: a plain function whose calls run on a slice."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar, Unpack, overload

from prefect_tpu.flows.brief import brief
from prefect_tpu.flows.options import OF_RUN, RunOptions, check_names
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import FailureKind, JobFailed
from prefect_tpu.infra.pickling import Arguments, check_callable, name_of

P = ParamSpec("P")
R = TypeVar("R")
_OF_THE_PROGRAM = frozenset({FailureKind.PROGRAM_ERROR, FailureKind.OUT_OF_MEMORY})


@overload
def run(function: Callable[P, R], /, *, accelerator: str = ..., **options: Unpack[RunOptions]) -> Callable[P, R]: ...


@overload
def run(
    function: None = None, /, *, accelerator: str = ..., gather: Literal[False] = ..., **options: Unpack[RunOptions]
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


@overload
def run(
    function: None = None, /, *, accelerator: str = ..., gather: Literal[True], **options: Unpack[RunOptions]
) -> Callable[[Callable[P, R]], Callable[P, list[R]]]: ...


def run(
    function: Callable[..., Any] | None = None,
    /,
    *,
    accelerator: str = "cpu",
    gather: bool = False,
    **options: Any,
) -> Any:
    """Make calls of a function run on every host of a slice, and return the leader's value.

    A call is a job of its own, one Prefect flow run as of `train`; arguments and
    value are pickled. On a host of a job the function is the plain one.

    Args:
        function: a plain function; `@prefect_tpu.run` alone runs it on `cpu`.
        accelerator: such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.
        gather: return a list with one value per host, the leader's first.
        **options: as of `train`, but for `params`. With a `name` the same call again returns what it returned
            before or goes on where it stopped, and one with other arguments is refused.

    Returns:
        The function that asks for such a run, or a decorator that makes it.

    Raises:
        UsageError: the function or an option cannot be used; a call raises it for arguments that cannot be sent.

    A call raises what the function raised on a host, with the traceback there as a note, from the `JobFailed`; and
    `JobFailed` itself where the job ended in another way.
    """
    check_names("run", options, OF_RUN)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        check_callable(function)

        @wraps(function)
        def remote(*args: Any, **kwargs: Any) -> Any:
            if Env.PLAN in os.environ:  # on a host of a job
                return function(*args, **kwargs)
            return _call(function, Arguments(args=args, kwargs=kwargs), accelerator, gather, options)

        return remote

    return decorate if function is None else decorate(function)


@brief
def _call(
    function: Callable[..., Any], arguments: Arguments, accelerator: str, gather: bool, options: dict[str, Any]
) -> Any:
    # On a host these would be loaded for nothing: there the function is the plain one.
    from prefect_tpu.flows.asking import ask
    from prefect_tpu.flows.call import carry_out
    from prefect_tpu.infra.launcher import values
    from prefect_tpu.infra.storage import open_storage

    _check_call(function, arguments)
    asked = ask("run", function, accelerator, options, arguments)
    try:
        result = carry_out(asked)
    except JobFailed as exc:
        failed = exc
    else:
        storage, last = open_storage(result.output), result.attempts[-1].number
        return values.gather(storage, last) if gather else values.load(storage, last)
    _raise_as_itself(failed, asked.folder)


def _check_call(function: Callable[..., Any], arguments: Arguments) -> None:
    """Raise the `TypeError` that Python raises for a call with wrong arguments, before anything is sent."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtins have none
        return
    try:
        signature.bind(*arguments.args, **arguments.kwargs)
    except TypeError as exc:
        raise TypeError(f"{name_of(function)}() {exc}") from None


def _raise_as_itself(failed: JobFailed, folder: str) -> NoReturn:
    """Raise what the function raised on the host, where that is why the job failed."""
    from prefect_tpu.infra.launcher import history, values
    from prefect_tpu.infra.storage import open_storage

    failure, storage = failed.failure, open_storage(folder)
    if failure.kind not in _OF_THE_PROGRAM or failure.host is None:
        raise failed
    itself = values.raised(storage, history.attempt_numbers(storage)[-1], failure.host)
    if itself is None:
        raise failed
    raise itself from JobFailed(failed.job, failure)  # without its traceback, which the exception has as a note
