"""Liveness, readiness and startup probes of a running container."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass

from control_plane import Object

from kubelet.container import Container

KINDS = ("startup", "readiness", "liveness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe has come to; `process` tells of which start of the container."""

    container: Container
    process: subprocess.Popen[bytes] | None
    kind: str
    is_good: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """The probes of one start of a container; it tells only what changes."""

    container: Container
    process: subprocess.Popen[bytes] | None
    address: str
    tell: Callable[[Probed], None]

    def begin(self) -> None:
        """Start a thread for each probe that the manifest has."""
        for kind in KINDS:
            if probe := self.container.spec.get(f"{kind}Probe"):
                name = f"{kind}-{self.container.name}"
                threading.Thread(target=self._go, args=(kind, probe), name=name, daemon=True).start()

    def _go(self, kind: str, probe: Object) -> None:
        period, over = probe.get("periodSeconds", 10), self.container.is_over
        wanted = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
        told, last, count = None, None, 0
        over.wait(probe.get("initialDelaySeconds", 0))
        while not over.is_set() and self.container.process is self.process:
            if kind == "startup" or self.container.is_started:
                is_good, message = look(probe, self.container, self.address)
                count = count + 1 if is_good is last else 1
                last = is_good
                if count >= wanted[is_good] and (is_good is not told or not is_good):
                    told = is_good
                    self.tell(self._probed(kind, is_good, message))
                if kind == "startup" and told is not None:
                    return
            over.wait(period if kind != "startup" or last is not None else 0.1)

    def _probed(self, kind: str, is_good: bool, message: str) -> Probed:
        return Probed(container=self.container, process=self.process, kind=kind, is_good=is_good, message=message)


def look(probe: Object, container: Container, address: str) -> tuple[bool, str]:
    """Whether a container passes a probe now, and what was seen."""
    seconds = probe.get("timeoutSeconds", 1)
    try:
        if "exec" in probe:
            return _execute(probe["exec"]["command"], container, seconds)
        if "httpGet" in probe:
            return _http(probe["httpGet"], container, address, seconds)
        with socket.create_connection((address, _port(probe["tcpSocket"], container)), seconds):
            return True, ""
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
        return False, str(error)


def _execute(command: list[str], container: Container, seconds: float) -> tuple[bool, str]:
    if container.process is None or container.sandbox is None:
        return False, "the container is not there"
    words = container.sandbox.entering(container.process, command)
    done = subprocess.run(words, env=container.environment, capture_output=True, text=True, timeout=seconds)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def _http(asked: Object, container: Container, address: str, seconds: float) -> tuple[bool, str]:
    connection = http.client.HTTPConnection(asked.get("host") or address, _port(asked, container), timeout=seconds)
    try:
        headers = {header["name"]: header["value"] for header in asked.get("httpHeaders", [])}
        connection.request("GET", asked.get("path", "/"), headers=headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"


def _port(asked: Object, container: Container) -> int:
    """By number or by the name of one of the container's ports."""
    named = {str(one.get("name")): str(one["containerPort"]) for one in container.spec.get("ports", [])}
    port = str(asked["port"])
    return int(named.get(port, port))
