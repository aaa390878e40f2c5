"""Which pages are generated, and from what?"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import code_words
import markdown
import typer
from code_words import fields_of
from markdown import code, sentence, table

import prefect_tpu
from prefect_tpu.flows import form, sweep, train
from prefect_tpu.flows.cli import app
from prefect_tpu.flows.shell import exit_status
from prefect_tpu.infra import contract, errors, job, layout, plan, pods, state
from prefect_tpu.infra.drills import GRAMMAR, DrillKind, Moment
from prefect_tpu.infra.host.environment import program_environment
from prefect_tpu.infra.launcher import status
from prefect_tpu.infra.policy.failure_kinds import ADVICE, RETRYABLE

OF_A_JOB = (job.SliceJob, job.Program, pods.PodSettings)
OF_AN_ATTEMPT = (plan.HostPlan, plan.RestorePoint)
OF_A_HOST = (contract.HostRecord, contract.Progress, contract.Silence, contract.ProgramError, contract.ResultInfo)
OF_AN_END = (job.JobResult, job.AttemptSummary, errors.Failure)
OF_NOW = (status.JobStatus, status.HostStatus, state.Observation, state.HostObservation)
GROUPS = {"timing": form.Timing, "training": form.Training, "pods": form.Pods}  # of a flow's parameters
NAMES_OF_OBJECTS = ("attempt_name", "trial_job")  # in `layout`, though no files have them
MACHINE = ("OUTPUT", "SLICES", "MAX_HOSTS", "PROFILE")  # set by whoever owns the machine; the others are a host's own


OFFERED = frozenset(prefect_tpu.__all__)


def python() -> str:
    """Every public name, in the order of the public face."""
    groups = code_words.groups_in(inspect.getsource(prefect_tpu), "_HOME")
    parts = [
        "\n\n".join([f"## {group[0].upper()}{group[1:]}", *(_public(name) for name in names)])
        for group, names in groups.items()
    ]
    return markdown.page("Python", "What `import prefect_tpu` offers.", *parts)


def _public(name: str) -> str:
    item = getattr(prefect_tpu, name)
    if not isinstance(item, type):
        made = markdown.function("###", f"prefect_tpu.{name}", item)
        given = vars(sys.modules[item.__module__]).get(str(inspect.signature(item).return_annotation))
        return _joined(made, _of_class(given) if _is_only_given(given) else "")
    return _of_class(item)


def _is_only_given(item: object) -> bool:
    """A class of ours that users get from a call and never name."""
    return isinstance(item, type) and item.__module__.startswith("prefect_tpu.") and item.__name__ not in OFFERED


def _of_class(item: type) -> str:
    name = item.__name__
    methods = [markdown.function("####", f"{name}.{key}", method) for key, method in _methods(item)]
    return _joined(_class("###", item), *methods)


def _methods(cls: type) -> list[tuple[str, Callable[..., Any]]]:
    """Its own public methods; what records have for being written down is nobody's call."""
    own = [(key, item) for key, item in vars(cls).items() if inspect.isfunction(item) and not key.startswith("_")]
    return [(key, item) for key, item in own if key != "to_json" and not issubclass(cls, enum.Enum)]


def _class(level: str, cls: type) -> str:
    if issubclass(cls, enum.Enum):
        return _enum(level, cls)
    rows = [(code(f.name), code(f.type), _default(f), _meaning(cls, f.name)) for f in _fields(cls)]
    heads = ("field", "type", "default", "meaning")
    return _joined(f"{level} `{cls.__name__}`", code_words.prose(cls), table(heads, rows))


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return markdown.default(getattr(field.default, "value", field.default))
    if field.default_factory is not dataclasses.MISSING:
        return code(repr(field.default_factory())) if field.default_factory in (dict, list, tuple) else ""
    return ""


def _meaning(cls: type, name: str) -> str:
    return sentence(fields_of(cls).get(name, ""))


def _enum(level: str, cls: type[enum.Enum]) -> str:
    meanings = fields_of(cls)
    rows = [(code(member.value), sentence(meanings.get(member.name, ""))) for member in cls]
    return _joined(f"{level} `{cls.__name__}`", code_words.prose(cls), table(("value", "meaning"), rows))


def parameters() -> str:
    """The flows' parameters, and the job that they make."""
    of_train = [*_of_flow(train.train), *_of_group("timing"), *_of_group("pods")]
    return markdown.page(
        "Parameters",
        "What may be asked of a run. Durations are in seconds.",
        "## The flow `train`",
        "Of a deployment. `prefect_tpu.train`, `run` and `submit` take them too, those of `timing` by their own names.",
        table(("parameter", "default", "meaning"), of_train),
        "## The flow `sweep`",
        "Of a deployment. `prefect_tpu.sweep` takes them too, those of `training` by their own names. `training.timing`"
        " and `pods` are as above.",
        table(("parameter", "default", "meaning"), [*_of_flow(sweep.sweep), *_of_group("training")]),
        "## The job",
        "What each way in makes of it, kept as `job.json`. A job that has ended may be run again under its name with"
        f" other {', '.join(code(name) for name in _settings())}; with anything else changed it is refused.",
        *(_class("###", cls) for cls in OF_A_JOB),
        "## Drills",
        f"Written `{GRAMMAR}`. [How to use them](../how-to/drills.md).",
        *(_enum("###", cls) for cls in (DrillKind, Moment)),
    )


def _of_group(group: str) -> list[tuple[str, str, str]]:
    return [
        (code(f"{group}.{name}"), _unless_group(name, field.default), sentence(field.description or ""))
        for name, field in GROUPS[group].model_fields.items()
    ]


def _of_flow(flow: Any) -> list[tuple[str, str, str]]:
    function = inspect.unwrap(flow.fn)
    meanings = code_words.section(function, "Args")
    return [
        (code(name), _unless_group(name, item.default), sentence(meanings.get(name, "")))
        for name, item in inspect.signature(function).parameters.items()
    ]


def _unless_group(name: str, default: object) -> str:
    return "" if name in GROUPS else markdown.default(default)


def _settings() -> list[str]:
    return [field.name for field in dataclasses.fields(job.SliceJob) if field.name in job.SETTINGS]


def shell() -> str:
    """Commands and options, as the command line itself knows them."""
    group = typer.main.get_command(app)
    context = typer.Context(group)
    commands = [_command(name, command) for name, command in _commands(group, context)]
    first = "The command `prefect-tpu`. Each command says the same after `--help`; [its exit statuses](endings.md)."
    return markdown.page("Shell", first, *commands)


def _commands(group: Any, context: typer.Context, before: str = "") -> Iterable[tuple[str, Any]]:
    """Those of groups by both words, as they are typed."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, context, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _command(name: str, command: Any) -> str:
    words = [f"prefect-tpu {name}", *(_usage(item) for item in command.params if item.param_type_name == "argument")]
    rows = [_option(item) for item in command.params if not getattr(item, "hidden", False)]
    help_text = code_words.flat((command.help or "").split("\f")[0])
    heads = ("option", "default", "meaning")
    return _joined(f"## `{name}`", f"```text\n{' '.join(words)}\n```", help_text, table(heads, rows))


def _usage(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _option(item: Any) -> tuple[str, str, str]:
    names = item.name.upper() if item.param_type_name == "argument" else ", ".join([*item.opts, *item.secondary_opts])
    value = f" {item.metavar}" if item.metavar and names.startswith("-") else ""
    default = item.default if item.default not in (None, False, True, ()) and not callable(item.default) else None
    return code(names + value), "" if default is None else code(default), code_words.flat(item.help or "")


def files() -> str:
    """What lies in a job's folder."""
    rows = [*_constants(layout), *_paths()]
    return markdown.page(
        "Files of a job",
        "Names below `<output>/<job>/`. Everything is plain JSON, text, or as the program wrote it.",
        table(("path", "meaning"), sorted(rows, key=lambda row: row[0].strip("`"))),
    )


def _constants(place: Any) -> list[tuple[str, str]]:
    meanings = code_words.comments_in(place)
    return [(code(getattr(place, name)), sentence(text)) for name, text in meanings.items()]


def _paths() -> Iterable[tuple[str, str]]:
    for name, function in vars(layout).items():
        if inspect.isfunction(function) and function.__module__ == layout.__name__ and name not in NAMES_OF_OBJECTS:
            places = [f"<{parameter}>" for parameter in inspect.signature(function).parameters]
            yield code(function(*places)), sentence(code_words.prose(function).replace("\n\n", " "))


def records() -> str:
    """The schemas of what is written down and shown."""
    events = _enum("###", contract.Event)
    return markdown.page(
        "Records",
        f"What is written down, each with `version` (now {contract.VERSION}): newer versions read older records, and"
        " older ones refuse newer records and say what to upgrade.",
        "## `job.json`\n\nSee [the job](parameters.md#the-job).",
        *("## `plan.json`", *(_class("###", cls) for cls in OF_AN_ATTEMPT)),
        *("## `record.json` of a host", *(_class("###", cls) for cls in OF_A_HOST)),
        *(_enum("###", cls) for cls in (contract.Stage, contract.StopReason, contract.KilledBy, contract.Activity)),
        *("## The ledger", "One object a line: `event`, a time, and what the event has.", events),
        *("## `result.json`, and what `run --json` prints", *(_class("###", cls) for cls in OF_AN_END)),
        *("## What `status --json` prints, and what a backend sees", *(_class("###", cls) for cls in OF_NOW)),
        *(_enum("###", cls) for cls in (state.JobState, state.HostPhase)),
    )


def endings() -> str:
    """Failure kinds and exit codes."""
    meanings = fields_of(errors.FailureKind)
    kinds = [
        (code(kind.value), sentence(meanings.get(kind.name, "")), "yes" if kind in RETRYABLE else "no", ADVICE[kind])
        for kind in errors.FailureKind
    ]
    return markdown.page(
        "How things end",
        "Failures of a job, exit statuses of the shell, exit codes of a host.",
        "## Failure kinds",
        "One that is tried again costs one of `max_preemptions` where no newer checkpoint was saved since the last."
        " `program_error` and `out_of_memory` are tried again `max_failures` times.",
        table(("kind", "meaning", "tried again", "advice"), kinds),
        "## Exit statuses of `prefect-tpu`",
        _codes(exit_status.ExitStatus),
        "## Exit codes of a host",
        "Of its runner, as `record.json` and a platform see them. The program's own code or signal stands in the"
        " record.",
        _codes(contract.ExitCode),
        "## Exceptions",
        f"```text\n{_tree()}\n```",
    )


def _codes(cls: type[enum.IntEnum]) -> str:
    meanings = fields_of(cls)
    rows = [(code(member.value), code(member.name), sentence(meanings.get(member.name, ""))) for member in cls]
    return table(("code", "name", "meaning"), rows)


def _tree() -> str:
    text = code_words.doc(errors)
    drawn = [line for line in text.splitlines() if line.startswith("    ")]
    return inspect.cleandoc("\n" + "\n".join(drawn))


def environment() -> str:
    """Settings of a machine, and what a program finds in its environment."""
    meanings = code_words.fields_of(contract.Env)
    both = {name: (code(getattr(contract.Env, name)), sentence(meanings.get(name, ""))) for name in meanings}
    return markdown.page(
        "Environment variables",
        "What a machine may set, and what a program finds.",
        "## Settings of a machine",
        table(("variable", "meaning"), [both[name] for name in MACHINE if name in both]),
        "## What a program finds",
        "Beside what the host itself has and the job's `env`, which wins over the table. Shown for host 1 of `cpu-2x1`;"
        " the hosts of GPUs have those in `CUDA_VISIBLE_DEVICES`, and no `NPROC`.",
        table(
            ("variable", "such as"),
            [(code(key), code(value) if value else "empty") for key, value in _on_a_host().items()],
        ),
        "### On TPUs",
        "What differs there, for host 2 of two slices of two hosts. `JAX_*` and torch's words count over all slices,"
        " `TPU_WORKER_*` within one. A cluster may put some of these into pods by itself: ours take their place, and on"
        " one slice there is no `MEGASCALE_*`. What a cluster says of the machine, such as `TPU_TOPOLOGY`, stays.",
        table(("variable", "such as"), [(code(key), code(value)) for key, value in _on_two_slices().items()]),
        "## What its runner tells it",
        "Read them through `prefect_tpu.info()`.",
        table(("variable", "meaning"), [row for name, row in both.items() if name not in MACHINE]),
    )


def _on_two_slices() -> dict[str, str]:
    pods = tuple(f"fit-1-s-{index}-{host}.fit-1" for index in range(2) for host in range(2))
    told = {"hosts": 4, "slices": 2, "platform": "tpu", "backend": "jobset", "addresses": pods}
    found = _on_a_host(2, **told, coordinator=f"{pods[0]}:8476")
    return {key: value for key, value in found.items() if _on_a_host().get(key) != value}


def _on_a_host(host: int = 1, **changes: Any) -> dict[str, str]:
    fields: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(plan.HostPlan)}
    known = {"hosts": 2, "devices_per_host": 1, "platform": "cpu", "accelerator": "cpu-2x1", "env": {}}
    known |= {"coordinator": "127.0.0.1:40000", "addresses": ("127.0.0.1", "127.0.0.1")}
    known |= {"job": "fit", "attempt": 1, "output": tempfile.gettempdir(), "data": {}, "python": "python"}
    known |= {"program": job.Program(kind="module", target="fit:main"), "checkpoint_every": 600.0, "grace": 30.0}
    known |= {"orphan_after": 60.0, "join_timeout": 120.0}
    made = program_environment(plan.HostPlan(**(fields | known | changes)), host, inherited={}, own={})
    return {key: value for key, value in made.items() if not key.startswith("PREFECT_TPU_")}


PAGES: dict[str, Callable[[], str]] = {
    "python.md": python,
    "parameters.md": parameters,
    "shell.md": shell,
    "files.md": files,
    "records.md": records,
    "endings.md": endings,
    "environment.md": environment,
}
FOLDER = Path(__file__).resolve().parents[1] / "reference"
