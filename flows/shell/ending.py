"""What does a person see when a job has ended? The attempts, the value or the failure, and where everything lies."""

from __future__ import annotations

from rich.console import Console

from prefect_tpu.flows.shell.picture import attempts
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.summary import failing_traceback, notes


def show_end(result: JobResult, picture: str | None) -> None:
    """The end of a job, on standard error. `picture`: where its loss was drawn."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if result.attempts:
        console.print(*attempts(result.attempts), sep="\n")
    console.print(verdict(result), markup=False)
    if result.failure is not None:
        console.print(_advice(result, result.failure), markup=False)
        console.print(_traceback(result), markup=False, end="")
    for line in notes(result):
        console.print(line, markup=False)
    console.print(f"output: {result.output}", markup=False)
    if picture is not None:
        console.print(f"loss:   {picture}", markup=False)


def verdict(result: JobResult) -> str:
    """One line: `digits succeeded: 0.97`, `digits failed: host_lost on host 2: …`, `digits stopped: …`."""
    if result.failure is None:
        return f"{result.job} {result.state}: {result.value}"
    if result.failure.kind is FailureKind.STOPPED:
        return f"{result.job} {result.state}: {result.failure.message}"
    return f"{result.job} {result.state}: {result.failure}"


def again(name: str, *, has_begun: bool) -> str:
    """How to come back to a job, in the words of a command line: its name may be one that nobody gave it."""
    return (
        f"To {'go on from its newest checkpoint' if has_begun else 'begin it'}: run the same command with --name {name}"
    )


def _advice(result: JobResult, failure: Failure) -> str:
    if failure.kind is FailureKind.STOPPED:
        return again(result.job, has_begun=bool(result.attempts))
    return failure.advice


def _traceback(result: JobResult) -> str:
    """The end of the failing host's traceback, and where its whole log is."""
    failure = result.failure
    if failure is None or failure.host is None or not result.attempts:
        return ""
    log = f"{result.output}/{layout.log(result.attempts[-1].number, failure.host)}"
    return "\n".join([*filter(None, [failing_traceback(result)]), f"log: {log}", ""])
