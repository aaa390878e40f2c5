"""The main job, whole: real digits on a local `v6e-16`, preempted once and one host killed once.

`make demo` runs it as a Prefect flow. With `PREFECT_API_URL` set it is seen in
that server's UI; otherwise Prefect starts a server of its own for the while.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# A temporary server of Prefect need not tell anybody that it ran.
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")

from rich.console import Console
from rich.table import Table

import prefect_tpu
from prefect_tpu.infra.loss_picture import PICTURE
from prefect_tpu.infra.summary import COLUMNS, rows

HERE = Path(__file__).parent
STEPS = 240
GOAL = 0.95


def main() -> int:
    options = parse()
    result = prefect_tpu.train(
        f"{HERE / 'digits.py'}:main",
        accelerator=options.accelerator,
        name=options.name,
        params={"steps": STEPS},
        data={"digits": str(HERE / "data" / "digits.csv.gz")},
        checkpoint_every=3.0,
        drills=["preempt@step=60,host=2", "kill@step=140,host=1"],
    )
    show(result)
    if result.value["accuracy"] < GOAL:
        print(f"The test accuracy is below {GOAL}.", file=sys.stderr)
        return 1
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accelerator", default="v6e-16", help="four hosts or more, for the drills name host 2")
    parser.add_argument("--name", help="the same name again goes on where it stopped")
    return parser.parse_args()


def show(result: prefect_tpu.JobResult) -> None:
    """The attempts, the steps lost and done again, the accuracy, and where the picture of the loss lies."""
    table = Table(*COLUMNS, title=f"Job {result.job}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for row in rows(result):
        table.add_row(*row)
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(f"test accuracy: {result.value['accuracy']:.3f}")
    console.print(f"picture of the loss: {result.output}/{PICTURE}")


if __name__ == "__main__":
    sys.exit(main())
