"""What does a Python call ask for? Checked before anything is written or Prefect is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from prefect_tpu.flows.options import OF_RUN, OF_TRAIN, PLAIN, TIMING, check_names
from prefect_tpu.flows.saved import placed
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.meshes import spelled
from prefect_tpu.infra.packing import Packed, pack_function
from prefect_tpu.infra.pickling import Arguments, check_callable
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request, check, job_folder, made_up_name
from prefect_tpu.infra.storage import Storage, open_storage
from prefect_tpu.infra.value_words import in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that can be carried out, and the function that must be sent before; None where it is named."""

    request: Request
    function: Packed | None

    @property
    def folder(self) -> str:
        """The job's folder."""
        return job_folder(self.request.output, self.request.name)

    def send(self, folder: Storage | None = None) -> Request:
        """Put the function into a folder, by default the job's. The request as it finds the function there."""
        if self.function is None:
            return self.request
        return replace(self.request, program=_sent(self.function.send(folder or open_storage(self.folder))))


def ask(
    caller: str,
    program: str | Callable[..., Any],
    accelerator: str,
    options: Mapping[str, Any],
    arguments: Arguments | None = None,
) -> Asked:
    """What a call of `caller` asks for.

    Raises `UsageError`, which says what to change; then nothing has been written.
    """
    check_names(caller, options, OF_RUN if arguments else OF_TRAIN)
    name = options.get("name") or made_up_name()
    named = _path("output", options["output"]) if options.get("output") else None
    where = placed(options.get("backend"), _of_cluster(options), named)
    settings, output = {**_settings(options), **where.settings}, where.output
    params, function = _mapping("params", options.get("params")), None
    if not isinstance(program, str):
        check_callable(program)
        function = pack_function(program, params, arguments)
        program = _sent(function.before(open_storage(job_folder(output, name))))
    request = Request(
        name=name,
        program=program,
        accelerators=(accelerator, *_words("fallback_accelerators", options)),
        output=output,
        params=params,
        arguments=_words("arguments", options),
        data={name: _path(f"data[{name!r}]", place) for name, place in _mapping("data", options.get("data")).items()},
        settings=settings,
        compile=_text("compile", options),
    )
    check(request)
    return Asked(request=request, function=function)


def parameters(request: Request) -> dict[str, Any]:
    """The same as parameters of the flow `train`."""
    timing = {name: value for name, value in request.settings.items() if name in TIMING}
    plain = {name: value for name, value in request.settings.items() if name not in (*TIMING, "pods")}
    return {
        "program": request.program,
        "accelerator": request.accelerators[0],
        "fallback_accelerators": list(request.accelerators[1:]),
        "params": dict(request.params),
        "data": dict(request.data),
        "name": request.name,
        "output": request.output,
        "arguments": list(request.arguments),
        "compile": request.compile,
        "timing": timing,
        **plain,
        **_of_pods(request.settings.get("pods")),
        "drills": list(request.settings.get("drills", ())),
    }


def _sent(program: Program) -> str:
    """The name under which the flow finds a function in the job's folder: callables are no Prefect parameters."""
    return f"payload:{program.payload}:{program.target}"


def _of_pods(pods: PodSettings | None) -> dict[str, Any]:
    """Their settings as parameters of the flow: the image and the cluster by themselves, the others together."""
    said = {} if pods is None else {name: value for name, value in asdict(pods).items() if value is not None}
    apart: dict[str, Any] = {name: said.pop(name) for name in ("image", "cluster") if name in said}
    together = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    return {**apart, **({"pods": together} if together else {})}


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    given = _group("timing", options)
    if unknown := sorted(set(given) - set(TIMING)):
        raise UsageError(f"timing has no field {unknown[0]!r}. It has: {', '.join(TIMING)}.")
    plain = {name: options[name] for name in (*PLAIN, *TIMING) if name in options}
    settings = {**given, **plain}
    if "env" in settings:
        settings["env"] = _mapping("env", settings["env"])
    if "mesh" in settings:
        settings["mesh"] = spelled(settings["mesh"])
    if "drills" in settings:
        settings["drills"] = _words("drills", settings)
    return settings


def _of_cluster(options: Mapping[str, Any]) -> dict[str, Any]:
    return {**_group("pods", options), **{name: options.get(name) for name in ("image", "cluster") if name in options}}


def _group(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are given together: as the model of the flow's form, of which what was not said is left out, or
    as a dictionary.
    """
    given = options.get(name) or {}
    dump = getattr(given, "model_dump", None)
    return _mapping(name, given if dump is None else dump(exclude_unset=True))


def _mapping(what: str, given: object) -> dict[str, Any]:
    found = {} if given is None else given
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise UsageError(f"{what} is {in_words(given)}: give a dictionary by name, such as {what}={{'name': …}}.")
    return dict(found)


def _words(what: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    given = options.get(what) or ()
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(word, str) for word in given):
        raise UsageError(f"{what} is {in_words(given)}: give a list of text, such as {what}=['…'].")
    return tuple(given)


def _text(what: str, options: Mapping[str, Any]) -> str:
    given = options.get(what) or ""
    if not isinstance(given, str):
        raise UsageError(f"{what} is {given!r}: give text, such as {what}='yes'.")
    return given


def _path(what: str, given: object) -> str:
    try:
        return os.fsdecode(os.fspath(given))  # type: ignore[call-overload]
    except TypeError:
        raise UsageError(f"{what} is {in_words(given)}: give the path of a file or folder.") from None
