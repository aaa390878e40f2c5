"""What every test starts from: an empty home, no Prefect server, JAX on the CPU, no deadline per example."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

# A busy machine is not a defect; what continuous integration tries must be the same every time.
hypothesis.settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("house")

# Before any import of Prefect or JAX: both read their settings while they are imported.
_HOME = Path(tempfile.mkdtemp(prefix="prefect-tpu-test-"))

_KEPT_FOR_TESTS = ("PREFECT_TPU_COMPILER_PYTHON",)
for _name in [name for name in os.environ if name.startswith("PREFECT_") and name not in _KEPT_FOR_TESTS]:
    del os.environ[_name]

os.environ.update(
    HOME=str(_HOME),
    XDG_CACHE_HOME=str(_HOME / "cache"),
    XDG_CONFIG_HOME=str(_HOME / "config"),
    XDG_DATA_HOME=str(_HOME / "data"),
    PREFECT_HOME=str(_HOME / "prefect"),
    PREFECT_LOGGING_LEVEL="WARNING",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    DO_NOT_TRACK="1",
    JAX_PLATFORMS="cpu",
    PYTHONSAFEPATH="1",
)
os.environ.pop("XLA_FLAGS", None)


def pytest_configure(config: pytest.Config) -> None:
    # Matplotlib lists the machine's fonts once per home, which takes seconds; keep that list between runs.
    cache = getattr(config, "cache", None)  # absent under `-p no:cacheprovider`
    if cache is not None:
        os.environ["MPLCONFIGDIR"] = str(cache.mkdir("matplotlib"))


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture
def repository() -> Path:
    """The root of the clone."""
    return Path(__file__).resolve().parent.parent
