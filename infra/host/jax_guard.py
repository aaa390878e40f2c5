"""What happens where a flow uses JAX on one of several hosts? It is told what to do, at the first use of a device.

JAX would wait there for the other hosts, or take the chips of one for itself. So the flow's JAX is given a platform of
ours, found as any plugin of JAX is, which is never there and says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.plan import HostPlan

PLATFORM = "every_host"  # the name that JAX repeats in its error
FOLDER = "guard"
MESSAGE = (
    "this flow runs on the leader of a slice of {hosts} hosts, and JAX needs all of them. Call"
    " prefect_tpu.every_host(function)(...) in it: it runs the function on each host, with JAX ready. For work on this"
    " host's CPUs alone call jax.config.update('jax_platforms', 'cpu') before JAX is used."
)
_PLUGIN = """\
def initialize():
    from jax._src import xla_bridge

    def refuse(*_, **__):
        raise RuntimeError({message!r})

    xla_bridge.register_backend_factory({platform!r}, refuse, priority=1000, fail_quietly=False)
"""


def guarded(plan: HostPlan, environment: dict[str, str]) -> dict[str, str]:
    """The environment with the guard in it; as it is where one process has all chips, which may use JAX itself."""
    if plan.hosts == 1:
        return environment
    folder = Path(environment[Env.SCRATCH], FOLDER)
    plugins = folder / "jax_plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    text = _PLUGIN.format(message=MESSAGE.format(hosts=plan.hosts), platform=PLATFORM)
    (plugins / "prefect_tpu_guard.py").write_text(text)
    path = os.pathsep.join(filter(None, (str(folder), environment.get("PYTHONPATH"))))
    return {**environment, "JAX_PLATFORMS": PLATFORM, "PYTHONPATH": path}
