"""A disk that refuses is told from a program that is wrong, by the system's own number."""

from __future__ import annotations

import errno

import pytest

from prefect_tpu.infra.training.store import disk_error

TENSORSTORE = (
    "OUT_OF_RANGE: Error writing \"a/0\": Failed to write 63859 bytes to file 24: File too large [os_error_code='27']"
)


@pytest.mark.parametrize(
    ("exc", "number"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errno.ENOSPC),
        (ValueError(TENSORSTORE), errno.EFBIG),
        (ValueError("RESOURCE_EXHAUSTED: writing: No space left on device [os_error_code='28']"), errno.ENOSPC),
        (ValueError("the shapes differ"), None),
        (RuntimeError("os_error_code 28"), None),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), None),
    ],
)
def test_the_system_s_number_is_found(exc: Exception, number: int | None) -> None:
    assert disk_error(exc) == number
