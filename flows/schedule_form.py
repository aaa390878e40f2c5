"""What does the form of a schedule send, and what does that mean? It is the one of Prefect's V2 UI, of Prefect 3.9.

It sends each field that takes JSON in a wrapping: without a value where nobody filled it in, and other such fields as
null. Of a single run the server takes the wrapping off; of a schedule it does not, and what nobody filled in stands in
place of what the deployment says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KIND, VALUE = "__prefect_kind", "value"


def is_wrapped(parameters: object) -> bool:
    """Whether there is such a wrapping in parameters."""
    if not isinstance(parameters, Mapping):
        return False
    return parameters.get(KIND) == "json" or any(map(is_wrapped, parameters.values()))


def filled_in(sent: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are meant: a field that nobody filled in is what it was before, or not there at all.

    before: as the deployment has them.

    Raises `ValueError` for what was filled in and is no JSON.
    """
    found = dict(before)
    for name, value in sent.items():
        if value is None:
            continue
        if not isinstance(value, Mapping):
            found[name] = value
        elif KIND not in value:
            own = before.get(name)
            found[name] = filled_in(value, own if isinstance(own, Mapping) else {})
        elif VALUE in value:
            found[name] = _read(name, value[VALUE])
    return found


def _read(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError as exc:
        raise ValueError(f"Parameter {name} of the schedule is no JSON: {exc}. It is {value!r}.") from None
