"""`prefect_tpu.train(...)`: the flow as a Python call, with functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from prefect_tpu.flows.asking import Asked, ask, parameters
from prefect_tpu.flows.brief import brief
from prefect_tpu.flows.options import Options, Path
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import values
from prefect_tpu.infra.storage import open_storage

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

R = TypeVar("R")

# A temporary server makes its database on the first start in a home, which takes longer than Prefect's 20 s.
FIRST_SERVER_SECONDS = 180


@brief
def train(
    program: str | Callable[..., Any],
    accelerator: str = "cpu",
    *,
    params: Mapping[str, Any] | None = None,
    data: Mapping[str, Path] | None = None,
    name: str | None = None,
    output: Path | None = None,
    **options: Unpack[Options],
) -> JobResult:
    """Train as one Prefect flow run, and wait for its end.

    Args:
        program: a function, or what the flow `train` takes. A function travels
            in the job's payload, never as a Prefect parameter.
        accelerator: such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.
        params: keyword arguments of the function, as JSON.
        data: name → file or folder, laid down for the program to read.
        name: of the job; call with the same name again to go on where it stopped.
        output: folder of all jobs; `$PREFECT_TPU_OUTPUT` or the user's data directory by default.
        **options: further parameters of the flow `prefect_tpu.flows.train.train`, and those of its `timing`.

    Returns:
        The job's result; `value` is what the leader returned.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        PlatformError: the Prefect server cannot be reached, or the output not be written.
        JobFailed: the job ended without its result, also by being stopped or its run cancelled.
    """
    own = {"params": params, "data": data, "name": name, "output": output}
    return with_value(carry_out(ask("train", program, accelerator, {**own, **options})))


def carry_out(asked: Asked) -> JobResult:
    """One run of the flow `train`, here, to its end."""

    def flow() -> Any:
        from prefect_tpu.flows.train import train as flow

        return flow

    return run_to_end(flow, lambda: parameters(asked.send()), _ended)


def _ended(state: State[Any]) -> JobResult:
    from prefect_tpu.flows.train import result_of

    return result_of(state)


def run_to_end(flow: Callable[[], Any], given: Callable[[], dict[str, Any]], ended: Callable[[State[Any]], R]) -> R:
    """One run of a flow, here, to its end, and what `ended` makes of its state.

    Args:
        flow: loads the flow; Prefect takes a second to import.
        given: its parameters. Asked for once a Prefect server answers: until then nothing is written.
        ended: called while the server is still there, though it lives for the call only.

    Raises `PlatformError` where no Prefect server is to be had.
    """
    import httpx
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS, temporary_settings

    loaded = flow()
    check_server()
    patience = {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: FIRST_SERVER_SECONDS}
    with temporary_settings(set_defaults=patience):
        try:
            state = loaded(**given(), return_state=True)
        except httpx.HTTPError as exc:
            raise PlatformError(f"The Prefect server refused the run: {exc}. {SERVER_ADVICE}") from exc
        return ended(state)


SERVER_ADVICE = (
    "Start one with `prefect server start` and see that PREFECT_API_URL and PREFECT_API_KEY are its own"
    " (`prefect config view`). To have one for the time of the call only, unset PREFECT_API_URL and"
    " `prefect profile use ephemeral`."
)


def check_server() -> None:
    """Raise `PlatformError` where a Prefect server is named and does not answer, or none may be had."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED

    url = PREFECT_API_URL.value()
    if url is None and not PREFECT_SERVER_EPHEMERAL_ENABLED.value():  # the profile `local`, with its URL unset
        raise PlatformError(f"No Prefect server is named, and this profile starts none. {SERVER_ADVICE}")
    if url is None:
        return
    with get_client(sync_client=True) as client:
        trouble = client.api_healthcheck()
    if trouble is not None:
        shown = httpx.URL(url).copy_with(userinfo=b"")
        raise PlatformError(f"The Prefect server at {shown} cannot be reached: {trouble}. {SERVER_ADVICE}")


def check_server_lasts() -> None:
    """Raise `PlatformError` where no Prefect server is named: one that Prefect starts for the while is gone afterwards,
    and nobody else can ask it.
    """
    from prefect.settings import PREFECT_API_URL

    if PREFECT_API_URL.value() is None:
        raise PlatformError(
            "No Prefect server is named, and one that Prefect started for this alone would be gone afterwards. Start"
            " one with `prefect server start`, or name it: `prefect config set PREFECT_API_URL=URL`, such as"
            " http://127.0.0.1:4200/api. Then do this again."
        )


def with_value(result: JobResult) -> JobResult:
    """The leader's value itself, unpickled where it is more than JSON."""
    last = result.attempts[-1].number
    return replace(result, value=values.load(open_storage(result.output), last))
