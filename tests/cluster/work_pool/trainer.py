"""A person's script that trains on pods of a cluster, and waits for the end.

trainer.py OUTPUT NAMESPACE IMAGE ACCOUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

import prefect_tpu

PROGRAM = Path(__file__).parents[2] / "programs" / "ticker.py"
STEPS, STEP_SECONDS = 600, 0.1  # not over when its driver is killed


def main(output: str, namespace: str, image: str, account: str) -> None:
    prefect_tpu.train(
        f"{PROGRAM}:main",
        "cpu-2x1",
        params={"steps": STEPS, "seconds": STEP_SECONDS},
        output=output,
        backend="jobset",
        image=image,
        pods={"namespace": namespace, "service_account": account, "cpu": "100m", "memory": "1Gi"},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
