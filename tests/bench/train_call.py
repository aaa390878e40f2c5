"""`python train_call.py JSON`: call `prefect_tpu.train` in a fresh interpreter, as a user's script does."""

from __future__ import annotations

import json
import sys

import prefect_tpu

if __name__ == "__main__":
    result = prefect_tpu.train(**json.loads(sys.argv[1]))
    sys.stdout.write(f"{json.dumps(result.value)}\n")
