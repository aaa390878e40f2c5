"""Drives one job to its end in a process of its own: `JOB.json FOLDER` → news on standard error, then the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.launcher.news import News


def main(job: str, folder: str) -> None:
    with driving(SliceJob.from_json(Path(job).read_bytes()), folder, tell) as driven:
        result = drive_to_end(driven)
    sys.stdout.write(json.dumps(result.to_json()) + "\n")


def tell(news: News) -> None:
    if news.text:
        sys.stderr.write(f"{news.text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
