"""The digits on a slice of GKE that is made for the job, and on the next best one where the best is not to be had.

`training` is a saved cluster, a block "GKE Cluster" of the Prefect server: it names the project, the bucket and the
image. See docs/how-to/mission.md for what happens, with everything on one machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import prefect_tpu

HERE = Path(__file__).parent


def main() -> int:
    options = parse()
    result = prefect_tpu.train(
        f"{HERE / 'digits.py'}:main",
        accelerator="v6e-16:spot",
        fallback_accelerators=["v5e-8@ct5lp-hightpu-4t:spot"],
        cluster="block:training",
        name=options.name,
        params={"steps": options.steps, "step_seconds": options.step_seconds},
        data={"digits": str(HERE / "data" / "digits.csv.gz")},
        checkpoint_every=1.0,
        env={"JAX_PLATFORMS": "cpu"} if options.without_chips else {},
        pods=json.loads(options.pods),
    )
    print(json.dumps(result.to_json()))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="digits", help="the same name again goes on where it stopped")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="makes each step last longer, to look at it")
    parser.add_argument("--without-chips", action="store_true", help="JAX takes the CPUs of the same hosts")
    parser.add_argument("--pods", default="{}", help='as JSON, what this job wants of its pods, such as {"cpu": "2"}')
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
