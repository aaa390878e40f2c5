"""`make bench`: what prefect-tpu costs, measured; writes docs/reference/performance.md.

`--quick` tries everything once, briefly, and writes no page; `--only WORD` measures one thing, and with `--write` puts
it into the page beside what stands there.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "prefect"), str(HERE.parent / "fakes")]  # tests are no package

import compiling  # noqa: E402
import machine  # noqa: E402
import saving  # noqa: E402
import starts  # noqa: E402
import whole_jobs  # noqa: E402
from page import page, renewed, text  # noqa: E402
from prefect_server import running_server  # noqa: E402
from ratios import Experiment, Figure  # noqa: E402
from sides import Sides, nothing_left  # noqa: E402

CLIENT_SETTINGS = ("PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILES_PATH")
PAGE = HERE.parents[1] / "docs" / "reference" / "performance.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long a job is that is measured whole, and how often things are measured."""

    job_seconds: float
    jobs: int
    slow_jobs: int  # of what has no goal and takes minutes
    short_jobs: int
    starts: int


WHOLE = Effort(job_seconds=60.0, jobs=3, slow_jobs=2, short_jobs=5, starts=9)
QUICK = Effort(job_seconds=10.0, jobs=1, slow_jobs=1, short_jobs=1, starts=3)


# Word → how the experiment is made, once it is its turn, and how often it is repeated.
Made = tuple[Callable[[Sides, Effort], Experiment], Callable[[Effort], int]]
EXPERIMENTS: dict[str, Made] = {
    "overhead": (lambda sides, effort: whole_jobs.overhead(sides, effort.job_seconds), lambda effort: effort.jobs),
    "recovery": (lambda sides, effort: whole_jobs.recovery(sides), lambda effort: effort.short_jobs),
    "cold": (lambda sides, effort: whole_jobs.cold_start(sides), lambda effort: effort.slow_jobs),
    "saving": (lambda sides, effort: saving.saving(sides, effort.job_seconds), lambda effort: effort.slow_jobs),
    "save": (lambda sides, effort: saving.one_save(sides), lambda effort: effort.jobs),
    "own": (lambda sides, effort: saving.own_time(sides, effort.short_jobs), lambda effort: effort.short_jobs),
    "guards": (lambda sides, effort: saving.guards(sides, effort.short_jobs), lambda effort: effort.short_jobs),
    "barrier": (lambda sides, effort: saving.barrier(sides, effort.short_jobs), lambda effort: effort.short_jobs),
    "shell": (lambda sides, effort: starts.shell(), lambda effort: effort.starts),
    "flow": (lambda sides, effort: starts.flow(), lambda effort: effort.starts),
    "runner": (lambda sides, effort: starts.runner(sides.folder), lambda effort: effort.starts),
    "compile": (lambda sides, effort: compiling.one_step(sides.folder), lambda effort: effort.jobs),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="once, briefly")
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="this one; may be repeated")
    parser.add_argument("--write", action="store_true", help="put what --only measures into the page")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    for name in [name for name in os.environ if name.startswith("PREFECT_") or name == "PYTHONDONTWRITEBYTECODE"]:
        del os.environ[name]  # neither a server nor a setting of whoever measures takes part
    figures = []
    for figure in measure(QUICK if options.quick else WHOLE, options.only or list(EXPERIMENTS)):
        figures.append(figure)
        print(text(figure), flush=True)
    if not options.quick and not options.only:
        PAGE.write_text(page(figures, machine.facts()))
    elif options.write and not options.quick:
        PAGE.write_text(renewed(PAGE.read_text(), figures, machine.facts()))
    else:
        return
    print(f"wrote {PAGE}")


def measure(effort: Effort, words: Iterable[str]) -> Iterator[Figure]:
    """With a Prefect server of its own on the loopback; nothing of it is left."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        with running_server(folder, settings={}) as server, nothing_left(folder):
            sides = Sides(folder, {key: server.environment[key] for key in CLIENT_SETTINGS})
            for make, times in (EXPERIMENTS[word] for word in words):
                yield from make(sides, effort).carry_out(times(effort))


if __name__ == "__main__":
    main()
