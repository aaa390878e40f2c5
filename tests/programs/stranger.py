"""A script that imports nothing of ours: it writes its arguments and its environment into the folder it is given."""

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    found = {"arguments": sys.argv[1:], "environment": dict(os.environ)}
    Path(sys.argv[-1], f"rank-{os.environ['RANK']}.json").write_text(json.dumps(found))
