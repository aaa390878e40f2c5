"""How a container of a pod comes to be started: image, environment, volumes, or what it waits for instead."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from control_plane import Object

from kubelet.bench import Bench
from kubelet.container import DEFAULT_MESSAGE_PATH, Container, Running, Waiting
from kubelet.environment import environment, expand
from kubelet.images import Image, PullFailed
from kubelet.probes import Probed, Probing
from kubelet.restarts import LONGEST_BACK_OFF_SECONDS
from kubelet.sandbox import Launch
from kubelet.sources import SourceMissing, Sources
from kubelet.volumes import Mount, Volumes

RETRY_SECONDS = 1.0  # for an object that is not there
FIRST_BACK_OFF_SECONDS = 0.5  # a pull fails, then it is backed off from


class Starter:
    """Starts the containers of one pod."""

    def __init__(self, pod: Object, bench: Bench, folder: Path, tell: Callable[[object], None]) -> None:
        self.address = bench.addresses.of(pod)
        self._pod, self._bench, self._tell = pod, bench, tell
        self._sources = Sources(bench.api, pod, self.address)
        self._volumes = Volumes(bench.api, pod, self._sources, folder / "volumes", bench.folder / "buckets")
        self._retry_volumes_at = 0.0
        self._has_volumes = False

    def has_volumes(self) -> bool:
        """Whether all volumes are laid down; tries it where they are not."""
        if not self._has_volumes and time.monotonic() >= self._retry_volumes_at:
            try:
                self._volumes.make()
                self._has_volumes = True
            except SourceMissing as error:
                self._retry_volumes_at = time.monotonic() + RETRY_SECONDS
                self._bench.record(self._pod, "FailedMount", f"MountVolume.SetUp failed for volume: {error}")
        return self._has_volumes

    @property
    def retry_at(self) -> float | None:
        """When volumes are tried again."""
        return None if self._has_volumes else self._retry_volumes_at

    def start(self, container: Container, ended: Callable[[], None]) -> None:
        """Start it, or leave it in the state that says why not and when it is tried again."""
        spec = container.spec
        container.retry_at = None
        try:
            image = self._bench.images.pull(spec["image"], spec.get("imagePullPolicy", "IfNotPresent"))
            variables = environment(spec, image, self._sources, self._bench.server)
        except PullFailed as error:
            self._back_off(container, error)
        except SourceMissing as error:
            container.state = Waiting(reason="CreateContainerConfigError", message=str(error))
            container.retry_at = time.monotonic() + RETRY_SECONDS
        else:
            container.failures = 0
            variables["HOSTNAME"] = self._hostname
            self._run(container, self._launch(container, image, variables), ended)

    def _run(self, container: Container, launch: Launch, ended: Callable[[], None]) -> None:
        words, search = list(launch.command), launch.environment["PATH"]
        if not words:
            container.refuse(128, "StartError", "failed to create containerd task: no command specified")
        elif "/" not in words[0] and not shutil.which(words[0], path=search):
            said = f'exec: "{words[0]}": executable file not found in $PATH: unknown'
            container.refuse(128, "StartError", f"failed to create containerd task: OCI runtime create failed: {said}")
        else:
            container.start(launch, self._bench.sandbox, ended)
        if isinstance(container.state, Running):
            container.is_started = "startupProbe" not in container.spec
            container.is_ready = container.is_started and "readinessProbe" not in container.spec
            Probing(container=container, process=container.process, address=self.address, tell=self._probed).begin()

    def _probed(self, probed: Probed) -> None:
        self._tell(probed)

    def _launch(self, container: Container, image: Image, variables: dict[str, str]) -> Launch:
        folder = container.folder / f"run-{container.restarts}"
        folder.mkdir(parents=True, exist_ok=True)
        container.message_file.touch()
        path = container.spec.get("terminationMessagePath", DEFAULT_MESSAGE_PATH)
        message = Mount(source=container.message_file, target=path, is_read_only=False)
        words = [*(container.spec.get("command") or image.entrypoint), *container.spec.get("args", [])]
        return Launch(
            command=[self._named(expand(word, variables)) for word in words],
            environment={name: self._named(value) for name, value in variables.items()},
            folder=folder,
            visible=image.folders,
            mounts=[*self._volumes.mounts(container.spec), message],
            hostname=self._hostname,
            hosts=self._bench.addresses.hosts_file(self._pod),
            work=container.spec.get("workingDir"),
        )

    def _named(self, text: str) -> str:
        """Where host names do not resolve, addresses stand for them."""
        return text if self._bench.sandbox.has_names else self._bench.addresses.with_addresses(text, self._pod)

    @property
    def _hostname(self) -> str:
        return str(self._pod["spec"].get("hostname") or self._pod["metadata"]["name"])[:63]

    def _back_off(self, container: Container, error: PullFailed) -> None:
        """A pull has failed: say so, then that it is backed off from, then try again."""
        name, state = container.spec["image"], container.state
        self._bench.record(self._pod, "Failed", f'Failed to pull image "{name}": {error}')
        if error.reason == "ErrImagePull" and not (isinstance(state, Waiting) and state.reason == error.reason):
            container.state = Waiting(reason=error.reason, message=str(error))
            container.retry_at = time.monotonic() + FIRST_BACK_OFF_SECONDS
            return
        container.failures += 1
        if error.reason == "ErrImagePull":
            message = f'Back-off pulling image "{name}": {error.reason}: {error}'
            container.state = Waiting(reason="ImagePullBackOff", message=message)
        else:
            container.state = Waiting(reason=error.reason, message=str(error))
        container.retry_at = time.monotonic() + min(2.0**container.failures, LONGEST_BACK_OFF_SECONDS)
