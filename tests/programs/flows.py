"""Flows without Prefect: what a command does on the leader of a slice, by regions; `python flows.py NAME [FOLDER]`."""

from __future__ import annotations

import os
import sys

import prefect_tpu as tpu


def where(word: str) -> dict[str, object]:
    here = tpu.info()
    return {"word": word, "host": here.host, "hosts": here.hosts, "pid": os.getpid()}


def say(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def regions() -> None:
    first = tpu.every_host(where, gather=True)("one")
    assert [value["host"] for value in first] == [0, 1], first
    say(first)
    say(tpu.every_host(where)("two"))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
