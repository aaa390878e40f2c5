"""How `prefect-tpu compile` ended, and what it said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


Compile = Callable[..., Said]
