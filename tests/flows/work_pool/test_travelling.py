"""What of a decorated flow reaches a slice: a plain flow, whatever Prefect would send with it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy
import pytest
from prefect import Flow, flow, tags
from prefect.settings import PREFECT_API_KEY, temporary_settings

import prefect_tpu
from prefect_tpu.flows.work_pool import travelling
from prefect_tpu.flows.work_pool.slice_flow import SliceFlow
from prefect_tpu.infra import errors

# On a host: Prefect, and of ours only what the archive brings.
HOST = """
import sys
sys.modules["prefect_tpu.flows"] = None
import cloudpickle
flow = cloudpickle.loads(sys.stdin.buffer.read())
"""


@prefect_tpu.tpu_slice(accelerator="v6e-16", include_files=["a"], launcher=["python3"])
@flow(name="doubling", retries=2)
def doubled(number: int) -> int:
    return 2 * number


@flow
def caught() -> str:
    try:
        raise errors.PlatformError("gone")
    except prefect_tpu.PlatformError:
        return "caught"


@contextmanager
def by_value(*modules: str) -> Iterator[None]:
    """As Prefect sends modules that are installed from a folder, or not at all."""
    for name in modules:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        yield
    finally:
        for name in modules:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])


def arrived(leaving: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(leaving))


def on_a_host(code: str, sent: bytes, folder: Path) -> str:
    """What a fresh process says that has unpickled it."""
    command = [sys.executable, "-P", "-c", HOST + code]
    done = subprocess.run(command, input=sent, cwd=folder, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_it_arrives_as_a_plain_flow_with_its_own_settings() -> None:
    found = arrived(doubled.as_it_travels())
    assert type(found) is Flow and (found.name, found.retries, found.fn(4)) == ("doubling", 2, 8)
    assert not travelling.BONDS & found.__dict__.keys()


def test_a_host_needs_nothing_of_ours_for_it(tmp_path: Path) -> None:
    with by_value(__name__):
        sent = cloudpickle.dumps(doubled.as_it_travels())
    told = on_a_host("print(type(flow).__name__, flow.name, flow.retries, flow.fn(20))", sent, tmp_path)
    assert told == "Flow doubling 2 40"


def test_one_that_is_used_by_another_flow_stays_bound_to_its_pool() -> None:
    found = arrived(doubled)
    assert type(found) is SliceFlow and found.work_pool == "tpu" and found.job_variables == {"accelerator": "v6e-16"}


def test_other_options_leave_it_bound_and_on_its_way() -> None:
    changed = doubled.with_options(retries=5)
    assert type(changed) is SliceFlow and changed.retries == 5 and changed.launcher == doubled.launcher
    assert type(arrived(doubled.as_it_travels().with_options(retries=5))) is Flow


def test_what_is_ours_is_not_sent_by_value_even_where_it_is_installed_from_a_folder(tmp_path: Path) -> None:
    """Prefect does that; a second copy of an exception would not be caught by the first."""
    bound = prefect_tpu.tpu_slice()(caught)
    with by_value(__name__, errors.__name__):
        sent = cloudpickle.dumps(bound.as_it_travels())
        assert errors.__name__ in cloudpickle.cloudpickle.list_registry_pickle_by_value()
    assert on_a_host("print(flow.fn())", sent, tmp_path) == "caught"


def test_no_settings_travel_and_no_secrets() -> None:
    with temporary_settings({PREFECT_API_KEY: "secret-key"}), tags("night"):
        found = travelling.context()
    assert found == {"tags_context": {"current_tags": {"night"}}}
    assert "secret-key" not in json.dumps(found, default=str)


@dataclass
class Settings:
    """Comes back as itself, by its annotation."""

    rate: float


class Thing:
    def __init__(self) -> None:
        self.weight = 1


@flow
def takes(x: Any) -> Any:
    return x


@pytest.mark.parametrize("value", [threading.Lock(), numpy.zeros(3), b"\xff", Thing(), {1, 2}.__iter__()])
def test_what_would_arrive_as_something_else_is_refused(value: Any) -> None:
    with pytest.raises(
        errors.UsageError, match=f"'x' of flow 'takes' is of type {type(value).__name__}, which does not"
    ):
        travelling.parameters_of(takes, {"x": value})


@pytest.mark.parametrize("value", [1, 1.5, None, "<lock>", [1, {"a": 2}], (1, 2), {"a": Path("b")}, Settings(rate=0.5)])
def test_what_arrives_as_it_was_travels(value: Any) -> None:
    assert set(travelling.parameters_of(takes, {"x": value})) == {"x"}
