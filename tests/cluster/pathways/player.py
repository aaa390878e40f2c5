"""Plays the two programs of Pathways in a pod: it takes their flags, listens on their ports and calls whom they call.

Nothing here is Google's; what it insists on is what `facts` are known of it. Each line that it writes is JSON, for the
tests to read. Whoever is called by a worker counts it for as long as the call lasts; whoever asks the proxy for the
chips gets what the resource manager counts. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping

MANAGER_PORT, PROXY_PORT, WORKER_PORT = 29001, 29000, 29005
COMMON = {"server_port", "gcs_scratch_location"}
FLAGS = {
    "manager": COMMON | {"node_type", "instance_count", "instance_type"},
    "proxy": COMMON | {"resource_manager_address"},
    "worker": COMMON | {"resource_manager_address"},
}
MAY = {"manager": set(), "proxy": {"num_elastic_slices", "sidecar_name"}, "worker": {"sidecar_name"}}
NEEDS = {
    "manager": {"REPLICATED_JOB_NAME", "JOBSET_NAME", "HOST_ADDRESS", "TPU_SKIP_MDS_QUERY"},
    "proxy": {"PATHWAYS_HEAD"},
    "worker": {
        *("PATHWAYS_HEAD", "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS"),
        *("XCLOUD_ENVIRONMENT", "MEGASCALE_GRPC_ENABLE_XOR_TRACER"),
    },
}
PORTS = {"manager": MANAGER_PORT, "proxy": PROXY_PORT, "worker": WORKER_PORT}
PATIENCE_SECONDS = 120.0


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def refuse(why: str) -> None:
    say(refused=why)
    raise SystemExit(f"pathways: {why}")


def read(arguments: list[str]) -> dict[str, str]:
    """Flags as absl takes them."""
    found: dict[str, str] = {}
    for word in arguments:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals or "$(" in value:
            refuse(f"{word!r} is no flag")
        found[name] = value
    return found


def role_of(flags: Mapping[str, str], image: str) -> str:
    """The server is two programs, the proxy another image."""
    if image == "proxy":
        return "proxy"
    return "manager" if flags.get("node_type") == "resource_manager" else "worker"


def check(role: str, flags: Mapping[str, str]) -> None:
    if missing := FLAGS[role] - flags.keys():
        refuse(f"a {role} lacks {sorted(missing)}")
    if unknown := flags.keys() - FLAGS[role] - MAY[role]:
        refuse(f"a {role} does not know {sorted(unknown)}")
    if missing := {name for name in NEEDS[role] if not os.environ.get(name)}:
        refuse(f"the environment of a {role} lacks {sorted(missing)}")
    if int(flags["server_port"]) != PORTS[role]:
        refuse(f"a {role} listens at {PORTS[role]}")
    if not flags["gcs_scratch_location"].startswith("gs://"):
        refuse("the scratch location is no bucket")
    if role == "manager" and not re.fullmatch(r"tpu[a-z0-9]+:\d+(x\d+){1,2}", flags["instance_type"]):
        refuse(f"{flags['instance_type']} is no kind of instance")
    if role == "manager" and flags["instance_count"] == "0":
        refuse("there is no instance")


def listening(port: int) -> socket.socket:
    """At the pod's own address: here all pods have one machine."""
    return socket.create_server((socket.gethostbyname(socket.gethostname()), port))


def called(address: str) -> socket.socket:
    """Whoever is there; it may come later."""
    name, _, port = address.rpartition(":")
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection((name, int(port)), 5)
        except OSError as error:
            if time.monotonic() > end:
                refuse(f"{address} does not answer: {error}")
            time.sleep(0.1)


class Manager:
    """Counts workers, by slice."""

    def __init__(self, flags: Mapping[str, str]) -> None:
        self.slices, self.kind = int(flags["instance_count"]), flags["instance_type"]
        self._workers: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def serve(self, server: socket.socket) -> None:
        say(role="manager", kind=self.kind, slices=self.slices, jobset=os.environ["JOBSET_NAME"])
        while True:
            threading.Thread(target=self._hear, args=(server.accept()[0],), daemon=True).start()

    def _hear(self, caller: socket.socket) -> None:
        lines = caller.makefile("r")
        said = json.loads(lines.readline())
        if said["role"] == "proxy":
            for _ in lines:
                caller.sendall((json.dumps({"kind": self.kind, "workers": sorted(self._workers)}) + "\n").encode())
            return
        who = int(said["slice"]), int(said["host"])
        with self._lock:
            self._workers[who] = self._workers.get(who, 0) + 1
        say(came=who)
        with contextlib.suppress(OSError):
            lines.read()
        with self._lock:
            self._workers[who] -= 1
            if not self._workers[who]:
                del self._workers[who]
        say(went=who)


def serve_proxy(flags: Mapping[str, str], server: socket.socket) -> None:
    say(role="proxy", elastic=flags.get("num_elastic_slices"))
    manager = called(flags["resource_manager_address"])
    manager.sendall(b'{"role": "proxy"}\n')
    answers, lock = manager.makefile("r"), threading.Lock()

    def answer(client: socket.socket) -> None:
        for _ in client.makefile("r"):
            with lock:
                manager.sendall(b"chips\n")
                client.sendall(answers.readline().encode())

    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


def work(flags: Mapping[str, str], server: socket.socket) -> None:
    """Until nobody wants it any more."""
    own = {"slice": os.environ["MEGASCALE_SLICE_ID"], "host": os.environ["JOB_COMPLETION_INDEX"]}
    say(role="worker", slices=os.environ["MEGASCALE_NUM_SLICES"], head=os.environ["PATHWAYS_HEAD"], **own)
    threading.Thread(target=server.accept, daemon=True).start()
    manager = called(flags["resource_manager_address"])
    manager.settimeout(None)
    manager.sendall((json.dumps({"role": "worker", **own}) + "\n").encode())
    manager.recv(1)
    raise SystemExit("pathways: the resource manager is gone")


def main(image: str, arguments: list[str]) -> None:
    flags = read(arguments)
    role = role_of(flags, image)
    check(role, flags)
    server = listening(PORTS[role])
    if role == "manager":
        Manager(flags).serve(server)
    elif role == "proxy":
        serve_proxy(flags, server)
    else:
        work(flags, server)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
