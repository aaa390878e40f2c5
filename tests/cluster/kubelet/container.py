"""One container: its state, as a status has it, and its process."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from control_plane import Object

from kubelet.clock import now
from kubelet.logs import LogWriter, last_lines
from kubelet.memory import used_bytes
from kubelet.sandbox import Launch, Sandbox
from kubelet.sources import quantity

MESSAGE_BYTES = 4096  # of a termination message
DEFAULT_MESSAGE_PATH = "/dev/termination-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Not started, or between two starts."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Its process runs."""

    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """Its process has ended."""

    exit_code: int
    reason: str
    started: str | None
    finished: str
    message: str = ""

    def written(self) -> Object:
        """As a status has it."""
        found = {"exitCode": self.exit_code, "reason": self.reason, "finishedAt": self.finished}
        return (
            found
            | ({"startedAt": self.started} if self.started else {})
            | ({"message": self.message} if self.message else {})
        )


@dataclass(slots=True, kw_only=True)
class Container:
    """A container of a pod; the pod's thread alone changes it.

    retry_at: when it is started again, by the monotonic clock.
    is_started, is_ready: what its probes have said.
    is_over: set while no process of it runs; who follows its log looks at it.
    kill_at: when it is killed that was asked to end.
    killed_for: why the kubelet killed it, as the reason of its end.
    environment: of its present process; a probe that runs a command has the same.
    """

    spec: Object
    folder: Path
    is_init: bool = False
    state: Waiting | Running | Terminated = field(default_factory=lambda: Waiting(reason="ContainerCreating"))
    last: Terminated | None = None
    restarts: int = 0
    retry_at: float | None = None
    failures: int = 0
    is_started: bool = False
    is_ready: bool = False
    kill_at: float | None = None
    killed_for: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    is_over: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None
    sandbox: Sandbox | None = None

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        """An init container that runs beside the others."""
        return self.is_init and self.spec.get("restartPolicy") == "Always"

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended well."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0

    @property
    def has_failed(self) -> bool:
        """Whether it has ended otherwise."""
        return isinstance(self.state, Terminated) and self.state.exit_code != 0

    @property
    def is_too_large(self) -> bool:
        """Whether it takes more memory than it may."""
        limit, process = self.memory_limit, self.process
        runs = process is not None and isinstance(self.state, Running)
        return bool(limit and process and runs and used_bytes(process.pid) > limit)

    @property
    def memory_limit(self) -> float | None:
        """In bytes."""
        limit = self.spec.get("resources", {}).get("limits", {}).get("memory")
        return quantity(limit) if limit else None

    @property
    def message_file(self) -> Path:
        """What lies at its termination message path, outside."""
        return self.folder / f"message-{self.restarts}"

    @property
    def log(self) -> Path:
        """Of its present process."""
        return self.log_of(self.restarts)

    def log_of(self, restart: int) -> Path:
        return self.folder / f"{restart}.log"

    def start(self, launch: Launch, sandbox: Sandbox, ended: Callable[[], None]) -> None:
        """Start its process; `ended` is called once that is over and its log is written."""
        try:
            process = sandbox.start(launch)
        except OSError as error:
            self.refuse(128, "StartError", f"failed to create containerd task: {error}")
            return
        assert process.stdout
        self.process, self.sandbox, self.environment = process, sandbox, launch.environment
        self.kill_at = self.killed_for = None
        self.is_over.clear()
        self.state = Running(started=now())
        writer = LogWriter(process.stdout, self.log)
        waiter = threading.Thread(target=self._wait, args=(process, writer, ended), name=f"wait-{self.name}")
        waiter.daemon = True
        waiter.start()

    def refuse(self, code: int, reason: str, message: str) -> None:
        """It could not be started."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        self.is_over.set()
        self.state = Terminated(exit_code=code, reason=reason, started=now(), finished=now(), message=message)

    def signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if isinstance(self.state, Running) and self.process and self.sandbox:
            self.sandbox.signal(self.process, number)

    def kill(self, reason: str | None = None) -> None:
        """End all of it at once."""
        self.killed_for = self.killed_for or reason
        self.signal(signal.SIGKILL)

    def note_end(self) -> None:
        """Its process has ended: say how."""
        assert self.process and isinstance(self.state, Running)
        code = self.process.returncode
        code = 128 - code if code < 0 else code
        reason = self.killed_for or ("Completed" if code == 0 else "Error")
        self.state = Terminated(
            exit_code=code,
            reason=reason,
            started=self.state.started,
            finished=now(),
            message=self._message(code),
        )
        self.is_started = self.is_ready = False

    def _message(self, code: int) -> str:
        written = self.message_file.read_bytes()[:MESSAGE_BYTES].decode("utf-8", "replace")
        if not written and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            return last_lines(self.log)
        return written

    def _wait(self, process: subprocess.Popen[bytes], writer: LogWriter, ended: Callable[[], None]) -> None:
        process.wait()
        assert self.sandbox
        self.sandbox.signal(process, signal.SIGKILL)  # what it left behind
        writer.finish()
        self.is_over.set()
        ended()
