"""Would the step of a job compile on the slices it asks for, and fit? Found out before anybody pays for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.compiler.checking import check
from prefect_tpu.infra.compiler.environment import find_compiler
from prefect_tpu.infra.compiler.question import Target, asked_in_words, find_target, params_of
from prefect_tpu.infra.compiler.render import Row
from prefect_tpu.infra.compiler.report import Problem, ProblemKind
from prefect_tpu.infra.compiler.slices import check_known
from prefect_tpu.infra.compiler.wishes import Wish
from prefect_tpu.infra.errors import Failure, FailureKind, JobFailed, UsageError
from prefect_tpu.infra.meshes import spelled
from prefect_tpu.infra.request import Request, job_folder
from prefect_tpu.infra.request import check as check_request
from prefect_tpu.infra.staging import STAGED

ITSELF = "yes"  # in place of a target: the program itself, up to its step


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What was found out.

    skipped: accelerator → why the compiler was not asked about it.
    """

    rows: tuple[Row, ...]
    skipped: Mapping[str, str]


def compile_ahead(request: Request, say: Callable[[str], None]) -> Ahead:
    """Ask about each TPU of a request whose `compile` says so; nothing of the job is written.

    say: hears what is done, a line each.

    Raises `UsageError` where the step cannot be asked about, or there could be no such job: compiling takes longer
    than finding that out. What does not fit is in the rows: see `refusal`.
    """
    skipped: dict[str, str] = {}
    dialect = str(request.settings.get("dialect", "google"))
    names = [found for name in request.accelerators if (found := _known(name, dialect, skipped))]
    for name, why in skipped.items():
        say(f"nothing is compiled for {name}: {why}")
    if not names:
        return Ahead(rows=(), skipped=skipped)
    check_request(request)
    params = dict(request.params) if request.compile == ITSELF else params_of(request.compile, request.params)
    wish = Wish(
        target=replace(_target(request, params), env=dict(request.settings.get("env", {}))),
        accelerators=tuple(names),
        slices=request.settings.get("slices", 1),
        params=params,
        mesh=spelled(request.settings.get("mesh")),
    )
    compiler = find_compiler(say)
    told = check(wish, compiler, lambda asked: say(f"asking the compiler about {asked_in_words(asked)}"))
    return Ahead(rows=tuple(told), skipped=skipped)


def refusal(name: str, ahead: Ahead) -> JobFailed | None:
    """Why the job shall not ask for a slice: the first that its step is not for; None where it is for all of them."""
    for row in ahead.rows:
        if (problem := row.verdict.problem) is not None:
            return JobFailed(name, _failure(row.verdict.accelerator, problem))
    return None


def _failure(accelerator: str, problem: Problem) -> Failure:
    where = f" ({problem.where})" if problem.where else ""
    return Failure(
        kind=FailureKind.OUT_OF_MEMORY if problem.kind is ProblemKind.TOO_LARGE else FailureKind.PROGRAM_ERROR,
        retryable=False,
        message=f"its step was compiled for {accelerator} first. {problem.message.rstrip('.')}{where}",
        advice=problem.advice,
    )


def _known(name: str, dialect: str, skipped: dict[str, str]) -> str | None:
    """The canonical name of a slice that the compiler can be asked about."""
    found = resolve(name, dialect=dialect)
    try:
        check_known(found)
    except UsageError as exc:
        skipped[name] = str(exc)
        return None
    return found.name


def _target(request: Request, params: Mapping[str, Any]) -> Target:
    here = _data(request)
    if request.compile != ITSELF:
        return find_target(request.compile, params, (), here)
    kind, _, rest = request.program.partition(":")
    if kind != "payload":
        return find_target(request.program, params, request.arguments, here)
    sha256, _, name = rest.partition(":")
    return Target(
        kind="function",
        place=name,
        function="",
        work="",
        data=here,
        payload=sha256,
        folder=job_folder(request.output, request.name),
    )


def _data(request: Request) -> dict[str, str]:
    """What the program finds as data: files and folders of this machine."""
    staged = [name for name, place in request.data.items() if place.startswith(STAGED)]
    if staged and request.compile == ITSELF:
        raise UsageError(
            f"Data {', '.join(map(repr, staged))} of job {request.name!r} is named by its hash, and the program is run"
            " here up to its step, where it reads files: give the file or folder itself, or name a function"
            " lower(mesh, …) as `compile`, which needs no data."
        )
    return {name: place for name, place in request.data.items() if name not in staged}
