"""Which options do commands share, and what does a person ask for with them? Each is declared once, here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from prefect_tpu.flows.shell import completion
from prefect_tpu.flows.shell.durations import written
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pods import PodSettings

T = TypeVar("T")
WHEN_WRONG, HOW_LONG = "When things go wrong", "Durations: seconds, or 90s, 10m, 2h"
IN_CLUSTER = "In a cluster"


def _default(name: str) -> str:
    """What a job has where the option is not given; said in the help, never repeated in the code."""
    value = SliceJob.__dataclass_fields__[name].default
    if isinstance(value, float):
        return written(value)
    return "none" if value is None else str(value)


Output = Annotated[
    str | None,
    typer.Option(
        "--output", help="Folder of all jobs.", show_default="$PREFECT_TPU_OUTPUT, else in the user's data directory"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts: JSON on standard output.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="CONTEXT",
        help="A kubeconfig context, gke://project/location/cluster, or block:NAME.",
        show_default="the one this runs in, else kubectl's",
        rich_help_panel=IN_CLUSTER,
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="CONTEXT",
        help="A kubeconfig context, gke://project/location/cluster, or block:NAME; again for the next best.",
        show_default="the one this runs in, else kubectl's",
        rich_help_panel=IN_CLUSTER,
    ),
]
Name = Annotated[str, typer.Argument(help="Name of the job.", autocompletion=completion.job_names)]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="Wait no longer; the exit status is then 124.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What `run` and `render` take: one field per argument or option, as it was typed."""

    target: Annotated[str, typer.Argument(help="path.py:function, pkg.mod:function, a script path.py, or a command.")]
    arguments: Annotated[list[str] | None, typer.Argument(help="Of a script or command, after '--'.")] = None
    accelerator: Annotated[
        list[str] | None,
        typer.Option(
            "--accelerator",
            "-a",
            help="Such as v6e-16; again for the next best.",
            show_default="cpu",
            autocompletion=completion.accelerators,
        ),
    ] = None
    spot: Annotated[bool, typer.Option("--spot", help="Spot capacity: the same as v6e-16:spot.")] = False
    dialect: Annotated[
        str | None, typer.Option(help="google or chips: what the number in a name counts.", show_default="google")
    ] = None
    name: Annotated[
        str | None,
        typer.Option(
            help="Of the job; the same name again goes on where it stopped.",
            show_default="made up",
            autocompletion=completion.job_names,
        ),
    ] = None
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="For the function.")
    ] = None
    data: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]PATH", help="A file or folder to lay down for the program.")
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="NAME[=VALUE]", help="For the program; without a value, this shell's. No secrets."
        ),
    ] = None
    output: Output = None
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Between checkpoints.",
            show_default=_default("checkpoint_every"),
            rich_help_panel=HOW_LONG,
        ),
    ] = None
    stall_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Without a step on any host, then the attempt is ended; 'none' to wait for ever.",
            show_default=_default("stall_timeout"),
            rich_help_panel=HOW_LONG,
        ),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="From an attempt's start to its end.",
            show_default=_default("deadline"),
            rich_help_panel=HOW_LONG,
        ),
    ] = None
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="From the notice that a host must go to its end.",
            show_default=_default("grace"),
            rich_help_panel=HOW_LONG,
        ),
    ] = None
    provision_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Without a slice, until the job is given up.",
            show_default=_default("provision_timeout"),
            rich_help_panel=HOW_LONG,
        ),
    ] = None
    join_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Until all hosts have met.",
            show_default=_default("join_timeout"),
            rich_help_panel=HOW_LONG,
        ),
    ] = None
    max_preemptions: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Restarts without progress before the job is given up.",
            show_default=_default("max_preemptions"),
            rich_help_panel=WHEN_WRONG,
        ),
    ] = None
    max_failures: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Restarts after an error of the program.",
            show_default=_default("max_failures"),
            rich_help_panel=WHEN_WRONG,
        ),
    ] = None
    drill: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND@MOMENT[,host=K]",
            help="Rehearse a failure, such as preempt@step=40,host=2.",
            autocompletion=completion.drills,
            rich_help_panel=WHEN_WRONG,
        ),
    ] = None
    image: Annotated[
        str | None,
        typer.Option(
            help="What each host's container runs: it has Python and the program's packages.",
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    cluster: Clusters = None
    zone: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ZONE",
            help="Where slices may be, such as us-east5-b; again for the next best.",
            show_default="wherever the cluster has or makes them",
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    make_pools: Annotated[
        bool | None,
        typer.Option(
            help="Make a node pool for each slice and delete it after; --no-make-pools where a saved cluster says so.",
            show_default="nodes are there, or the cluster makes them",
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="local|jobset|pathways",
            help="Processes of this machine, pods of a cluster, or such pods driven by one program.",
            show_default="jobset with any option of this list, else local",
            autocompletion=completion.backends,
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(
            help="Where the objects are made.",
            show_default=PodSettings.__dataclass_fields__["namespace"].default,
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    slices: Annotated[
        int | None,
        typer.Option(min=1, help="How many slices the program spans.", show_default=_default("slices")),
    ] = None
    start_from: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Folder of another job whose newest checkpoint this one starts with, or the place of one checkpoint.",
            show_default="nothing",
        ),
    ] = None
    mesh: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=SIZE,…",
            help='What tpu.mesh() gives a program that says none: data=-1,tp=4 or [[4,2],["fsdp","tp"]].',
            show_default="one axis, data",
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="skip=N,steps=M",
            help="Record M steps on all hosts, once N are reported, for xprof.",
            show_default="nothing",
        ),
    ] = None
    compile: Annotated[
        str | None,
        typer.Option(
            metavar="yes|TARGET",
            help="Before a slice is asked for, compile the program's own tpu.step, or a function lower(mesh, …).",
            show_default="nothing",
        ),
    ] = None
    queue: Annotated[
        str | None, typer.Option(help="A Kueue queue that admits the job.", rich_help_panel=IN_CLUSTER)
    ] = None
    service_account: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose rights the program has.", rich_help_panel=IN_CLUSTER)
    ] = None
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SECRET/KEY",
            help="A variable of the program, from a secret of the cluster.",
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=SOURCE",
            help="gs://bucket/folder, configmap:NAME, secret:NAME, claim:NAME or empty[:SIZE], seen at PATH.",
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    pod: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Any other setting of pods, such as memory=64Gi or labels.team=vision.",
            autocompletion=completion.pod_settings,
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None


def spelled_out(kind: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function whose first parameter is a dataclass of options: its fields, then the others."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        hints = get_type_hints(kind, include_extras=True)
        spelled = [_parameter(option, hints[option.name]) for option in fields(kind)]  # type: ignore[arg-type]

        def call(**given: Any) -> None:
            options = kind(**{parameter.name: given.pop(parameter.name) for parameter in spelled})
            command(options, **given)

        parameters = [*spelled, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own)]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        call.__name__, call.__doc__ = command.__name__, command.__doc__
        return call

    return decorate


def _parameter(option: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is MISSING else option.default
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
