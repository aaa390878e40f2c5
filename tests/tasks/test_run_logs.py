"""What a run logs of an error of ours is its sentence; of any other all there is, and of ours too for who debugs."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.tasks.run_logs import edit_logs, saying_it_better, speaking

LOGGER = "prefect.engine"  # as for flow runs, and it sends nothing to a server


@pytest.fixture
def told() -> Iterator[io.StringIO]:
    """What that logger writes, at Prefect's usual level."""
    edit_logs()
    stream, logger, prefect = io.StringIO(), logging.getLogger(LOGGER), logging.getLogger("prefect")
    handler, level = logging.StreamHandler(stream), prefect.level
    logger.addHandler(handler)
    prefect.setLevel(logging.INFO)
    yield stream
    prefect.setLevel(level)
    logger.removeHandler(handler)


def fail(ask: object) -> None:
    """As Prefect's engine tells of what a flow raised."""
    try:
        resolve(ask) if isinstance(ask, str) else divmod(1, 0)
    except Exception:
        logging.getLogger(LOGGER).error("Engine execution exited with unexpected exception", exc_info=True)


def test_the_sentence_is_first_and_last_and_the_caller_s_code_between(told: io.StringIO) -> None:
    fail("v6e-17")
    lines = told.getvalue().splitlines()
    assert lines[0].startswith("UsageError: Accelerator 'v6e-17'") and lines[-1] == lines[0]
    assert "test_run_logs.py" in lines[2] and "accelerators.py" not in told.getvalue()
    assert len(lines) < 7


def test_where_no_code_of_the_caller_s_is_on_the_way_the_sentence_is_all(told: io.StringIO) -> None:
    logging.getLogger(LOGGER).error("Encountered", exc_info=UsageError("Give it a name."))
    assert told.getvalue() == "UsageError: Give it a name.\n"


def test_another_error_keeps_its_whole_way(told: io.StringIO) -> None:
    fail(None)
    assert told.getvalue().startswith("Engine execution exited with unexpected exception\nTraceback (most recent")
    assert told.getvalue().endswith("ZeroDivisionError: integer division or modulo by zero\n")


def test_who_debugs_sees_everything(told: io.StringIO) -> None:
    logging.getLogger("prefect").setLevel(logging.DEBUG)
    fail("v6e-17")
    assert told.getvalue().startswith("Engine execution") and "accelerators.py" in told.getvalue()


def test_what_is_said_better_by_an_error_is_not_logged_before(told: io.StringIO) -> None:
    with saying_it_better():
        logging.getLogger(LOGGER).error("Parameters: a whole page")
    logging.getLogger(LOGGER).error("seen")
    assert told.getvalue() == "seen\n"


def test_each_line_begins_with_who_speaks(told: io.StringIO) -> None:
    with speaking("trial 3"):
        logging.getLogger(LOGGER).info("at %d %%", 50)
        fail("v6e-17")
    logging.getLogger(LOGGER).info("at %d", 60)
    lines = told.getvalue().splitlines()
    assert lines[0] == "trial 3: at 50 %" and lines[1].startswith("trial 3: UsageError: Accelerator 'v6e-17'")
    assert lines[-1] == "at 60"


def test_it_is_safe_to_repeat() -> None:
    edit_logs()
    before = list(logging.getLogger(LOGGER).filters)
    edit_logs()
    assert logging.getLogger(LOGGER).filters == before
