"""`make demo-gke`: the mission as a newcomer can read it, on this machine alone.

A program trains on a slice that is made for it, loses it, goes on on another one, and leaves nothing behind.
Kubernetes, its scheduler, JobSet and Prefect are the real ones; nodes run their pods as processes of this machine, and
Google's APIs are small servers of our tests. `--write` puts the transcript into docs/how-to/mission.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]
# Tests are no package.
sys.path += [str(HERE), str(HERE.parent), str(HERE.parent / "chaos"), str(TESTS / "prefect"), str(TESTS / "fakes")]

from rich.console import Console  # noqa: E402
from rich.text import Text  # noqa: E402

PAGE = TESTS.parent / "docs" / "how-to" / "mission.md"
TASK_COLUMNS = 19
_QUOTA = re.compile(r": quota \S+ of project \S+ in \S+:")  # which one it is, is in the Prefect server's log
WIDEST, MOST_LINES = 88, 2  # characters beside the task, so that a page shows them; all is in the Prefect server's log
WORTH_TELLING = ("stage_", "check_", "provision_", "launch_", "release_", "collect_")


def folded(text: str) -> list[str]:
    """Between words, as far as a page is wide."""
    return textwrap.wrap(
        text, WIDEST, max_lines=MOST_LINES, placeholder="…", break_on_hyphens=False, subsequent_indent="  "
    )


class Transcript:
    """What is seen on the terminal: titles, lines of the script by their task, and what each act showed."""

    def __init__(self, console: Console) -> None:
        self._console, self._acts, self._began = console, 0, time.monotonic()

    def begins(self, act: str, title: str) -> None:
        self._acts += 1
        self._console.print()
        self._console.print(Text(f"{self._acts}  {title}", style="bold"), Text(f"  {self._at()}", style="dim"))

    def line(self, task: str, text: str, level: str) -> None:
        """One of a Prefect task's; what else the script prints is not for people."""
        if not task.startswith(WORTH_TELLING) or text.startswith("Finished in state"):
            return
        style = {"WARNING": "yellow", "ERROR": "red"}.get(level, "default")
        text = _QUOTA.sub(":", text)
        for number, part in enumerate(folded(text)):
            beside = "" if number else task
            self._console.print(Text(f"   {beside:{TASK_COLUMNS}} ", style="cyan"), Text(part, style=style), sep="")

    def proved(self, text: str) -> None:
        self._console.print(Text("   ✓ ", style="green"), Text(text), sep="")

    def _at(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    from cluster import PREFIX, sweep
    from control_plane import quick_folder

    sweep(quick_folder())
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=quick_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    options = _parse()
    console = Console(highlight=False, soft_wrap=True, record=options.write)
    transcript = Transcript(console)
    with _folder() as folder:
        _in_a_home_of_its_own(folder)
        left = _play(transcript, folder, options)
    if options.write:
        _write(console.export_text())
    return 1 if left else 0


def _play(transcript: Transcript, folder: Path, options: argparse.Namespace) -> list[str]:
    """What is left, which is nothing."""
    from cluster import running_cluster
    from gcs import running
    from grounds import MadePools
    from story import Mission, Telling
    from world import world

    telling = Telling(
        begins=transcript.begins,
        line=lambda line: transcript.line(line.task, line.text, line.level),
        proved=lambda proof: transcript.proved(proof.text),
    )
    transcript.begins("world", "A project of Google Cloud on this machine: a cluster without a TPU, a bucket, quotas")
    with running(folder) as gcs, running_cluster(folder) as cluster, world(cluster, gcs, folder) as here:
        os.environ.update(gcs.environment)  # this process looks into the bucket
        version, nodes = cluster.api.get("/version")["gitVersion"], len(here.nodes())
        transcript.proved(f"Kubernetes {version} and a Prefect server answer; {nodes} node, and none with chips")
        words = ("--steps", str(options.steps), "--step-seconds", str(options.step_seconds))
        return Mission(here, MadePools(), telling, "digits", *words).play().left


def _in_a_home_of_its_own(folder: Path) -> None:
    """Nothing of the person who tries it is read or written."""
    for name in [name for name in os.environ if name.startswith("PREFECT_") and not name.startswith("PREFECT_TPU_")]:
        del os.environ[name]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.setdefault("PREFECT_TPU_CONTROL_PLANE_CACHE", f"{cache}/prefect-tpu/control-plane")
    home = folder / "home"
    home.mkdir()
    os.environ.update(HOME=str(home), PREFECT_SERVER_ANALYTICS_ENABLED="false", DO_NOT_TRACK="1", PYTHONSAFEPATH="1")


def _write(transcript: str) -> None:
    """In place of the one that the page has."""
    before, fence, rest = PAGE.read_text().partition("```text\n")
    lines = "\n".join(line.rstrip() for line in transcript.strip().splitlines())
    PAGE.write_text(f"{before}{fence}{lines}\n{rest[rest.index('```') :]}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="of the training")
    parser.add_argument("--step-seconds", type=float, default=0.1, help="that each lasts at least")
    parser.add_argument("--write", action="store_true", help=f"put the transcript into {PAGE.name}")
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    sys.exit(main())
