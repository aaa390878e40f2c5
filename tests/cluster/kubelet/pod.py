"""One pod on one node: a thread that starts what is due, notes what ended, obeys the API server and reports."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import threading
import time
from collections.abc import Iterator

from control_plane import Object

from kubelet.bench import Bench
from kubelet.clock import now
from kubelet.container import Container, Running, Terminated, Waiting
from kubelet.messages import Changed, Ended, Ending, ShutDown
from kubelet.probes import Probed
from kubelet.reporting import Reporter
from kubelet.restarts import back_off_seconds, is_restarted
from kubelet.starting import Starter
from kubelet.status import SHUT_DOWN, TOO_LONG, Verdict, View, container_statuses, status

GRACE_SECONDS = 30
MEMORY_LOOK_SECONDS = 0.2


class _Left(Exception):
    """Nothing more is to be done for the pod."""


class PodRun:
    """A pod that runs; its thread owns all of it but the mailbox."""

    def __init__(self, pod: Object, bench: Bench) -> None:
        self.pod, self._bench = pod, bench
        meta = pod["metadata"]
        self.node, self.uid = str(pod["spec"]["nodeName"]), str(meta["uid"])
        self.folder = bench.folder / "pods" / f"{meta['namespace']}_{meta['name']}_{self.uid}"
        self._reporter = Reporter(pod, bench.api)
        self._mail: queue.Queue[object] = queue.Queue()
        self._starter = Starter(pod, bench, self.folder, self._mail.put)
        self.first = [self._container(one, is_init=True) for one in pod["spec"].get("initContainers", [])]
        self.main = [self._container(one, is_init=False) for one in pod["spec"]["containers"]]
        self._ending: Ending | None = None
        self._reported = ""
        self.is_told = threading.Event()  # set once its end is reported, or nobody will report it
        self._began = time.monotonic()
        self.thread = threading.Thread(target=self._run, name=f"pod-{meta['name']}", daemon=True)

    def tell(self, message: object) -> None:
        """Put a message into its mailbox."""
        self._mail.put(message)

    @property
    def containers(self) -> list[Container]:
        """All, in the order in which they start."""
        return [*self.first, *self.main]

    def _container(self, spec: Object, is_init: bool) -> Container:
        waits = self.pod["spec"].get("initContainers") and not is_init
        state = Waiting(reason="PodInitializing" if waits else "ContainerCreating")
        return Container(spec=spec, folder=self.folder / spec["name"], is_init=is_init, state=state)

    def _run(self) -> None:
        try:
            self._live()
        except _Left:
            pass
        except Exception as error:
            if not self._reporter.is_unwanted():
                self._bench.fail(f"{self._reporter.path}: {error!r}")
        finally:
            for container in self.containers:
                container.kill()
            for container in self.containers:
                if isinstance(container.state, Running):
                    container.is_over.wait(5)
                self._throw_away(container)

    def _live(self) -> None:
        self._post("Pending")
        while not self._is_over():
            self._enforce()
            if self._ending is None and not self._mains_are_over():
                self._start_due()
            self._report()
            self._take_mail()
        while True:
            self._tell_end()
            if self.pod["metadata"].get("deletionTimestamp") and self.is_told.is_set():
                self._reporter.delete()
                raise _Left
            self._take(self._mail.get())

    def _tell_end(self) -> None:
        """Once; a node that is cut off does it when it is heard again."""
        if not self.is_told.is_set() and self._bench.can_speak(self.node):
            verdict = self._ending.verdict if self._ending else None
            self._post("Succeeded" if self._has_succeeded() else "Failed", verdict)
            self.is_told.set()

    def report_lost(self) -> None:
        """Its host has come back without it: what ran is not found any more."""
        for container in self.containers:
            if isinstance(container.state, Running):
                container.refuse(255, "Unknown", "")
        self._post("Failed")
        self.is_told.set()
        if self.pod["metadata"].get("deletionTimestamp"):
            self._reporter.delete()

    # What comes in

    def _take_mail(self) -> None:
        """Wait for a message, at most until something else is due; then take all there are."""
        due = [at for at in self._due() if at is not None]
        try:
            self._take(self._mail.get(timeout=max(0.0, min(due) - time.monotonic()) if due else None))
            while True:
                self._take(self._mail.get_nowait())
        except queue.Empty:
            return

    def _due(self) -> Iterator[float | None]:
        yield self._ending.kill_at if self._ending else self._starter.retry_at
        yield self._deadline
        for container in self.containers:
            yield container.retry_at
            yield container.kill_at
            if isinstance(container.state, Running) and container.memory_limit:
                yield time.monotonic() + MEMORY_LOOK_SECONDS

    def _take(self, message: object) -> None:
        if isinstance(message, Changed):
            self.pod = message.pod
            if message.pod["metadata"].get("deletionTimestamp"):
                self._end(message.pod["metadata"].get("deletionGracePeriodSeconds", GRACE_SECONDS), None)
        elif isinstance(message, Ended):
            if message.process and message.container.process is message.process:
                message.container.note_end()
                self._throw_away(message.container)
        elif isinstance(message, ShutDown):
            self._end(min(message.seconds, self._own_grace), SHUT_DOWN)
        elif isinstance(message, Probed):
            self._note_probe(message)
        else:
            raise _Left

    def _note_probe(self, probed: Probed) -> None:
        container = probed.container
        if container.process is not probed.process or not isinstance(container.state, Running):
            return
        if not probed.is_good:
            text = f"{probed.kind.capitalize()} probe failed: {probed.message}"
            self._bench.record(self.pod, "Unhealthy", text)
        if probed.kind == "readiness":
            container.is_ready = probed.is_good
        elif probed.kind == "startup" and probed.is_good:
            container.is_started = True
            container.is_ready = "readinessProbe" not in container.spec
        elif not probed.is_good and container.kill_at is None:
            text = f"Container {container.name} failed {probed.kind} probe, will be restarted"
            self._bench.record(self.pod, "Killing", text, "Normal")
            container.kill_at = time.monotonic() + self._own_grace
            container.signal(signal.SIGTERM)

    # What is enforced

    @property
    def _policy(self) -> str:
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def _own_grace(self) -> float:
        return float(self.pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS))

    @property
    def _deadline(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return self._began + seconds if seconds and self._ending is None else None

    def _end(self, seconds: float, verdict: Verdict | None) -> None:
        """Ask every container to end, and kill what is left after so many seconds."""
        kill_at = time.monotonic() + seconds
        if self._ending:  # what comes second may only make it shorter
            self._ending = Ending(kill_at=min(kill_at, self._ending.kill_at), verdict=self._ending.verdict)
            return
        self._ending = Ending(kill_at=kill_at, verdict=verdict)
        for container in [*self.main, *reversed(self.first)]:
            container.retry_at = None
            container.signal(signal.SIGTERM)

    def _enforce(self) -> None:
        clock = time.monotonic()
        if self._ending is None and self._mains_are_over():
            self._end_sidecars()
        if self._deadline is not None and clock >= self._deadline:
            self._end(self._own_grace, TOO_LONG)
        for container in self.containers:
            is_late = container.kill_at is not None and clock >= container.kill_at
            if is_late or (self._ending and clock >= self._ending.kill_at):
                container.kill()
                container.kill_at = None
            if container.is_too_large:
                container.kill("OOMKilled")
        if self._ending and clock >= self._ending.kill_at:
            self._ending = Ending(kill_at=clock + 1, verdict=self._ending.verdict)

    def _end_sidecars(self) -> None:
        for container in self.first:
            if container.kill_at is None and isinstance(container.state, Running):
                container.kill_at = time.monotonic() + self._own_grace
                container.signal(signal.SIGTERM)

    # What is started

    def _start_due(self) -> None:
        if not self._starter.has_volumes():
            return
        for container in self.first:
            self._start_or_restart(container)
            is_up = container.is_sidecar and isinstance(container.state, Running) and container.is_started
            if not is_up and not container.has_succeeded:
                return
        for container in self.main:
            self._start_or_restart(container)

    def _start_or_restart(self, container: Container) -> None:
        is_due = container.retry_at is None or time.monotonic() >= container.retry_at
        if isinstance(container.state, Waiting) and is_due:
            self._start(container)
        elif is_restarted(container, self._policy):
            if container.retry_at is None:
                container.retry_at = time.monotonic() + back_off_seconds(container)
            elif is_due and isinstance(container.state, Terminated):
                container.last = container.state
                container.restarts += 1
                self._start(container)

    def _start(self, container: Container) -> None:
        def ended() -> None:
            self._mail.put(Ended(container=container, process=container.process))

        self._starter.start(container, ended)
        if isinstance(container.state, Terminated):  # it was refused: nobody will say that it has ended
            self._mail.put(Ended(container=container, process=None))

    # How it stands

    def _is_over(self) -> bool:
        runs = any(isinstance(one.state, Running) for one in self.containers)
        return not runs and (self._ending is not None or self._mains_are_over())

    def _mains_are_over(self) -> bool:
        if self._policy == "Never" and any(one.has_failed for one in self.first if not one.is_sidecar):
            return True
        return all(
            isinstance(one.state, Terminated) and one.retry_at is None and not is_restarted(one, self._policy)
            for one in self.main
        )

    def _has_succeeded(self) -> bool:
        return not (self._ending and self._ending.verdict) and all(one.has_succeeded for one in self.main)

    # What is told

    def _report(self) -> None:
        said = json.dumps([container_statuses(self.first), container_statuses(self.main)])
        if said != self._reported:
            self._reported = said
            has_started = any(isinstance(one.state, (Running, Terminated)) for one in self.main)
            self._post("Running" if has_started else "Pending")

    def _post(self, phase: str, verdict: Verdict | None = None) -> None:
        if not self._bench.can_speak(self.node):
            self._reported = ""
            return
        view = View(
            phase=phase,
            first=self.first,
            main=self.main,
            address=self._starter.address,
            verdict=verdict,
            stamp=now(),
            before=self.pod.get("status", {}),
        )
        if (posted := self._reporter.post(status(view))) is not None:
            self.pod["status"] = posted

    def _throw_away(self, container: Container) -> None:
        """What a container wrote outside its volumes is gone with it."""
        shutil.rmtree(container.folder / f"run-{container.restarts}", ignore_errors=True)
