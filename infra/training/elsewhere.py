"""What are the names that ask for jobs, on a host that has only what a program needs?

A program may import them beside those that it uses here, so they are there; to use one is an error that says so.
"""

from __future__ import annotations

from typing import NoReturn

from prefect_tpu.infra.errors import UsageError


class _Elsewhere:
    def __new__(cls, *_: object, **__: object) -> NoReturn:
        raise UsageError(
            f"prefect_tpu.{cls.__name__} asks for jobs, and this host of one has only what a program needs. Call it"
            " where prefect-tpu is installed."
        )


def stand_in(name: str) -> type[object]:
    """Of a public name whose module did not travel here."""
    return type(name, (_Elsewhere,), {"__doc__": "Not on this host."})
