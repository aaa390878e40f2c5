"""A job whose step does not fit asks for no slice: by `train` on a real Prefect server, by `run` and by `submit`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "prefect"))

from prefect_server import Server, running_server  # noqa: E402

import prefect_tpu  # noqa: E402

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
GROWING = HERE / "programs" / "growing.py"
TOO_MANY = 16 * 63  # rows of 1 GiB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def train(server: Server, output: Path, **options: Any) -> Any:
    given = {"program": f"{GROWING}:main", "output": str(output), **options}
    done = subprocess.run(
        [sys.executable, "-P", str(HERE / "ask_train.py")],
        input=json.dumps(given),
        env=dict(server.environment),
        cwd=output,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def artifacts(server: Server, key: str) -> list[Any]:
    found: list[Any] = server.ask("/artifacts/filter", artifacts={"key": {"any_": [key]}})
    return found


@pytest.mark.usefixtures("compiler_python")
class TestTrain:
    def test_a_step_that_does_not_fit_asks_for_no_slice(self, server: Server, tmp_path: Path) -> None:
        ended = train(
            server, tmp_path, name="large", accelerator="v6e-16", compile=f"{GROWING}:lower", params={"batch": TOO_MANY}
        )
        assert ended["kind"] == "out_of_memory"
        assert "v6e-16" in ended["message"] and "63.00 GiB" in ended["message"]
        assert not (tmp_path / "large").exists()
        (artifact,) = artifacts(server, "compile-large")
        assert "too large" in artifact["data"] and "| v6e-16 |" in artifact["data"]

    def test_one_that_fits_runs(self, server: Server, tmp_path: Path) -> None:
        ended = train(server, tmp_path, name="small", accelerator="v6e-1", compile="yes", params={"batch": 8})
        assert ended == {"value": None, "attempts": 1}
        (artifact,) = artifacts(server, "compile-small")
        assert "fits" in artifact["data"]

    def test_what_is_no_tpu_is_left_to_itself(self, server: Server, tmp_path: Path) -> None:
        ended = train(server, tmp_path, name="cpu", accelerator="cpu", compile="yes", params={"batch": 8})
        assert ended == {"value": None, "attempts": 1}
        assert not artifacts(server, "compile-cpu")

    def test_submit(self, tmp_path: Path) -> None:
        with pytest.raises(prefect_tpu.JobFailed, match=r"63\.00 GiB"):
            prefect_tpu.submit(
                f"{GROWING}:main",
                "v6e-16",
                compile=f"{GROWING}:lower",
                params={"batch": TOO_MANY},
                name="large",
                output=tmp_path,
            )
        assert not (tmp_path / "large").exists()

    def test_a_function_that_was_sent(self, tmp_path: Path) -> None:
        """It travels in the job's folder, where the compiler's process finds it."""

        def main(size: int) -> None:
            import jax
            import jax.numpy as jnp

            import prefect_tpu as tpu

            rows = jax.NamedSharding(tpu.mesh(), jax.P("data"))
            table = jax.device_put(jnp.ones((size, 8)), rows)
            tpu.step(jnp.linalg.eigvals)(table)

        with pytest.raises(prefect_tpu.JobFailed, match=r"eig|square"):
            prefect_tpu.submit(main, "v6e-8", compile="yes", params={"size": 8}, name="sent", output=tmp_path)
        assert not (tmp_path / "sent" / "job.json").exists()

    def test_run(self, tmp_path: Path) -> None:
        tool = str(Path(sys.executable).with_name("prefect-tpu"))
        words = ("-a", "v6e-16", "--compile", f"{GROWING}:lower", "--param", f"batch={TOO_MANY}", "--name", "large")
        done = subprocess.run(
            [tool, "run", f"{GROWING}:main", *words, "--output", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 1
        assert "63.00 GiB" in done.stderr
        assert not (tmp_path / "large").exists()
