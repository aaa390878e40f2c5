"""Which files beside the reference are written from the code, and from what? The template of a work pool, as JSON.

Twice: in the package, for whoever has only that, and beside the manifests, for whoever makes pools by other means.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from prefect_tpu.flows.work_pool.template import base_job_template

ROOT = Path(__file__).resolve().parents[2]


def _template() -> str:
    return f"{json.dumps(base_job_template(), indent=2, ensure_ascii=False)}\n"


FILES: dict[Path, Callable[[], str]] = {
    ROOT / "flows" / "work_pool" / "base-job-template.json": _template,
    ROOT / "deployments" / "base-job-template.json": _template,
}
