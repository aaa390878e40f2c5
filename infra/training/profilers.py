"""Who records the steps of a program, JAX or PyTorch, and with what is that opened?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Protocol

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import agreement, torch_peers
from prefect_tpu.infra.training.context import context


class Profiler(Protocol):
    """One recording of this process."""

    def start(self, folder: Path) -> None: ...

    def name_step(self, step: int | None) -> None:
        """What happens from here on is this step's; None: nobody's."""
        ...

    def stop(self, folder: Path) -> Path:
        """The file that was recorded, in the folder that `start` was given."""
        ...

    @property
    def host(self) -> int:
        """Whose recording it is: the number of this process among all."""
        ...

    def place(self, run: str) -> str:
        """Where in the output it belongs."""
        ...

    def advice(self, output: Storage) -> str:
        """How the recordings of all hosts are opened."""
        ...


class JaxProfiler:
    """As xprof reads it."""

    _step: Any = None

    def start(self, folder: Path) -> None:
        import jax

        jax.profiler.start_trace(str(folder))

    def name_step(self, step: int | None) -> None:
        import jax

        now = None if step is None else jax.profiler.StepTraceAnnotation("train", step_num=step)
        self._step = _instead(self._step, now)

    def stop(self, folder: Path) -> Path:
        import jax

        jax.profiler.stop_trace()  # type: ignore[no-untyped-call]
        found = next(folder.rglob("*.xplane.pb"), None)
        if found is None:
            raise RuntimeError("JAX's profiler has written nothing")
        return found

    @property
    def host(self) -> int:
        import jax

        return int(jax.process_index())

    def place(self, run: str) -> str:
        return layout.recording(run, self.host)

    def advice(self, output: Storage) -> str:
        return f"xprof --logdir {output.where(layout.PROFILE)}"


class TorchProfiler:
    """What CPUs and GPUs do, as Perfetto reads it."""

    _step: Any = None

    def start(self, folder: Path) -> None:
        import torch

        _settle()
        self._profile = torch.profiler.profile()
        self._profile.start()

    def name_step(self, step: int | None) -> None:
        import torch

        self._step = _instead(self._step, None if step is None else torch.profiler.record_function(f"step {step}"))

    def stop(self, folder: Path) -> Path:
        _settle()
        self._profile.stop()
        file = folder / "trace.json.gz"
        self._profile.export_chrome_trace(str(file))
        return file

    @property
    def host(self) -> int:
        here = context()
        return torch_peers.place()[0] or (here.host if here is not None else 0)  # hosts that have not met have none

    def place(self, run: str) -> str:
        return layout.torch_recording(run, self.host)

    def advice(self, output: Storage) -> str:
        return f"open a host's file of {output.where(layout.PROFILE)} in https://ui.perfetto.dev"


def profiler() -> Profiler:
    """Of what the program computes with. Raises `RuntimeError` where nobody can record it."""
    if "torch_xla" in sys.modules:
        raise RuntimeError("it is torch_xla that computes: use torch_xla.debug.profiler")
    is_torch = agreement.is_over(torch_peers) or "jax" not in sys.modules
    if is_torch and "torch" in sys.modules:
        return TorchProfiler()
    if "jax" in sys.modules:
        return JaxProfiler()
    raise RuntimeError("it is JAX or PyTorch that records, and this program uses neither")


def _instead(before: Any, now: Any) -> Any:
    """End one annotation and begin another, where there are any."""
    if before is not None:
        before.__exit__(None, None, None)
    if now is not None:
        now.__enter__()
    return now


def _settle() -> None:
    """What is queued on a GPU belongs to the steps before."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
