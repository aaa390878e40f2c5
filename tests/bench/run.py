"""What our own part costs, as ratios measured in one run: `make bench`.

Both sides of a ratio are started in turn, A B A B …, so that a change of the
machine's speed meets both. The median ratio counts; the spread says how noisy it was.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """\
import os, sys, time
def main(seconds=3.0):
    time.sleep(seconds)
    return int(os.environ.get("RANK", 0))
if __name__ == "__main__":
    main()
"""
HOSTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """`ours` ÷ `bare`: both do the same work, one of them with our part around it."""

    name: str
    ours: Callable[[], None]
    bare: Callable[[], None]

    def measure(self, repetitions: int) -> tuple[list[float], list[float]]:
        self.ours(), self.bare()  # what is read from disk for the first time counts for neither
        pairs = [(_seconds(self.ours), _seconds(self.bare)) for _ in range(repetitions)]
        return [ours / bare for ours, bare in pairs], [ours for ours, _ in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'what':42} {'median':>7} {'lowest':>7} {'highest':>7} {'seconds':>8}")
        for ratio in ratios(Path(folder)):
            found, seconds = ratio.measure(options.repetitions)
            figures = statistics.median(found), min(found), max(found), statistics.median(seconds)
            print(f"{ratio.name:42} {figures[0]:7.2f} {figures[1]:7.2f} {figures[2]:7.2f} {figures[3]:8.3f}")


def ratios(folder: Path) -> list[Ratio]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    tool = str(Path(sys.executable).with_name("prefect-tpu"))
    job = [tool, "run", f"{program}:main", "--accelerator", f"cpu-{HOSTS}x1", "--output", str(folder / "jobs")]
    return [
        Ratio(
            name="a job of 3 s ÷ its processes alone",
            ours=lambda: run(job),
            bare=lambda: run_together([sys.executable, str(program)], HOSTS),
        ),
        Ratio(
            name="prefect-tpu --help ÷ bare Python",
            ours=lambda: run([tool, "--help"]),
            bare=lambda: run([sys.executable, "-c", "pass"]),
        ),
        Ratio(
            name="prefect-tpu --help ÷ prefect --help",
            ours=lambda: run([tool, "--help"]),
            bare=lambda: run([str(Path(tool).with_name("prefect")), "--help"]),
        ),
        Ratio(
            name="import of the host runner ÷ bare Python",
            ours=lambda: run([sys.executable, "-P", "-c", "import prefect_tpu.infra.host.runner"]),
            bare=lambda: run([sys.executable, "-P", "-c", "pass"]),
        ),
    ]


def run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)


def run_together(command: Sequence[str], count: int) -> None:
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(count)]
    for process in started:
        if process.wait() != 0:
            raise SystemExit(f"{command} failed")


def _seconds(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
