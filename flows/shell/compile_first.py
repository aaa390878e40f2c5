"""Shall a job be begun whose step is to be compiled first?"""

from __future__ import annotations

from prefect_tpu.flows.shell.telling import telling
from prefect_tpu.infra.compiled_ahead import compile_ahead, refusal
from prefect_tpu.infra.request import Request


def before_a_job(request: Request, *, is_quiet: bool) -> None:
    """Compile the step of a job that is asked for. Raises `JobFailed` where it does not fit all its slices."""
    with telling(is_quiet=is_quiet) as told:
        ahead = compile_ahead(request, told.say)
        if (why := refusal(request.name, ahead)) is not None:
            raise why
