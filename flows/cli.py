"""The shell command `prefect-tpu`: its table of contents and its outer door.

Each command parses, calls, and leaves with an exit status. Only typer is
imported here: `--help` must not pay for what the commands need.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import typer

from prefect_tpu.flows.shell import about, automations, compiler, jobs, models, new_job, pool
from prefect_tpu.flows.shell.exit_status import PAGE, ExitStatus, of_error
from prefect_tpu.flows.shell.own_options import ForPrograms
from prefect_tpu.flows.streams import make_lasting
from prefect_tpu.infra.errors import PlatformError, PrefectTpuError

app = typer.Typer(
    name="prefect-tpu",
    callback=about.top,
    epilog=PAGE,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RUNNING, LOOKING, MACHINE = "Ask for a job", "Jobs that are there", "Machines, clusters and work pools"
app.command("run", cls=ForPrograms, rich_help_panel=RUNNING, epilog=PAGE)(new_job.run)
app.command("render", cls=ForPrograms, rich_help_panel=RUNNING)(new_job.render)
app.command("compile", cls=ForPrograms, rich_help_panel=RUNNING, epilog=PAGE)(compiler.compile_step)
app.command("list", rich_help_panel=LOOKING)(jobs.list_jobs)
app.command("status", rich_help_panel=LOOKING)(jobs.status)
app.command("logs", rich_help_panel=LOOKING)(jobs.logs)
app.command("checkpoints", rich_help_panel=LOOKING)(jobs.checkpoints)
app.command("attach", rich_help_panel=LOOKING, epilog=PAGE)(jobs.attach)
app.command("stop", rich_help_panel=LOOKING, epilog=PAGE)(jobs.stop)
app.command("reap", rich_help_panel=MACHINE)(jobs.reap)
app.command("doctor", rich_help_panel=MACHINE)(about.doctor)
app.command("quota", rich_help_panel=MACHINE)(about.quota)
app.command("accelerators", rich_help_panel=MACHINE)(about.accelerators)
app.add_typer(models.app, rich_help_panel=LOOKING)
app.add_typer(pool.app, rich_help_panel=MACHINE)
app.add_typer(automations.app, rich_help_panel=MACHINE)
app.command("version", rich_help_panel=MACHINE)(about.version)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status.

    An error of ours becomes one line on standard error, with `--json` an object on standard output.
    """
    make_lasting()
    words = list(sys.argv[1:] if arguments is None else arguments)
    wants_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        sys.exit(app(words, prog_name="prefect-tpu", standalone_mode=not wants_json) or ExitStatus.SUCCEEDED)
    except PrefectTpuError as exc:
        _say(in_full(exc), type(exc).__name__, wants_json)
        sys.exit(of_error(exc))
    except Exception as exc:
        if not hasattr(exc, "format_message"):  # a defect of ours: let it be seen
            raise
        _say(exc.format_message(), "UsageError", wants_json)  # typer's own, about a word it does not know
        sys.exit(ExitStatus.WRONG_CALL)
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)


def in_full(exc: PrefectTpuError) -> str:
    """With what was noted on its way here: how long it was tried, and what becomes of the job."""
    notes = getattr(exc, "__notes__", ()) if isinstance(exc, PlatformError) else ()
    return " ".join([str(exc), *notes])


def _say(message: str, kind: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"error": message, "kind": kind}))
    else:
        typer.echo(f"prefect-tpu: {message}", err=True)
