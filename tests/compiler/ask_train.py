"""Calls `train` with the options of a JSON on standard input; says how it ended, as JSON on the last line."""

import json
import sys

from prefect_tpu import JobFailed, train

if __name__ == "__main__":
    try:
        result = train(**json.load(sys.stdin))
        print(json.dumps({"value": result.value, "attempts": len(result.attempts)}))
    except JobFailed as exc:
        print(json.dumps({"kind": exc.failure.kind, "message": str(exc)}))
