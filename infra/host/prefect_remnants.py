"""What does Prefect leave on a machine's disk where its flow is killed? Two folders, with the flow's environment.

`prefect flow-run execute` makes them where temporary files go and removes them at its end, which a flow that is ended
as it stands never comes to. The container of a pod goes with all that is in it; a laptop's disk would keep them, and
the server's key with them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

RUN = "PREFECT__FLOW_RUN_ID"
_ATTEMPT, _CODE = "prefect-workspace-attempt-", "prefect-flow-run-"
_SAYS_WHOSE = "supervisor.json"


def clear_away(environment: Mapping[str, str]) -> None:
    """Delete what ended processes of the flow run in this environment left; of no other run, and never raise."""
    run = environment.get(RUN)
    place = Path(environment.get("TMPDIR") or tempfile.gettempdir())
    for folder in place.glob(f"{_ATTEMPT}*") if run else ():
        said = _said(folder / _SAYS_WHOSE)
        if said.get("flow_run_id") != run:
            continue
        code = Path(str(said.get("workspace_root", "")))
        if code.parent == place and code.name.startswith(_CODE):
            shutil.rmtree(code, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)  # last: by it the other one is found


def _said(file: Path) -> dict[str, object]:
    """Another user's, or one that is being written, says nothing."""
    try:
        said = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
