"""Who calls a server is taken, whatever keeps the process from it for a while."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own, which may have few files open.
CROWDED = """
import os, resource, socket, threading
from prefect_tpu.infra.addresses import callers

server = socket.create_server(("127.0.0.1", 0))
caller = socket.create_connection(server.getsockname())
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
opened = []
try:
    while True:
        opened.append(os.open(os.devnull, os.O_RDONLY))
except OSError as exc:
    print(exc.strerror)

def take():
    for connection in callers(server):
        print(connection.recv(4).decode())
        server.close()

taking = threading.Thread(target=take)
taking.start()
caller.sendall(b"here")
taking.join(0.5)
print("waits" if taking.is_alive() else "gave up")
for descriptor in opened:
    os.close(descriptor)
taking.join(20)
"""


def test_a_caller_that_cannot_be_taken_is_taken_later() -> None:
    found = subprocess.run([sys.executable, "-c", CROWDED], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n") == ["Too many open files", "waits", "here", ""], found.stderr
