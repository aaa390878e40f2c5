"""The bare side of the bench: `python bare.py HOSTS PORT CACHE COMMAND…` starts the command once per host and waits.

It sets what a host of a job finds in its environment, and does nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def environment(host: int, hosts: int, port: str, cache: str) -> dict[str, str]:
    """As the local backend sets it for a host with one device of the CPU."""
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "1",
        "NPROC": "32",
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_PROCESSES": str(hosts),
        "JAX_PROCESS_ID": str(host),
        "PYTHONUNBUFFERED": "1",
    }


def main(hosts: str, port: str, cache: str, *command: str) -> int:
    """The sum of the processes' exit codes: 0 where all went well."""
    started = [start(command, host, int(hosts), port, cache) for host in range(int(hosts))]
    return sum(abs(process.wait()) for process in started)


def start(command: Sequence[str], host: int, hosts: int, port: str, cache: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env={**os.environ, **environment(host, hosts, port, cache)})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
