"""What is made for others is not made on a server that is gone when the command is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_tpu.flows.call import check_server_lasts
from prefect_tpu.flows.shell.automation_server import automations
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.pool_server import pools
from prefect_tpu.infra.errors import PlatformError

COMMAND = Path(sys.executable).with_name("prefect-tpu")
SAYS = "`prefect server start`"


def test_a_command_says_how_to_start_one_and_starts_none(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"PREFECT_HOME": str(tmp_path), "PREFECT_PROFILES_PATH": str(tmp_path / "profiles.toml")}
    done = subprocess.run([COMMAND, "pool", "create", "tpu"], env=environment, capture_output=True, text=True)
    assert done.returncode == ExitStatus.PLATFORM and done.stdout == ""
    assert SAYS in done.stderr and "PREFECT_API_URL" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "prefect.db").exists()


@pytest.mark.parametrize("asked", [pools, automations])
def test_none_of_them_asks_one(asked: Callable[[], AbstractContextManager[object]]) -> None:
    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(PlatformError, match=SAYS), asked():
        pytest.fail("a server was asked")


def test_a_server_that_is_named_will_do() -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        check_server_lasts()
