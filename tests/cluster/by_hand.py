"""A cluster to try things on by hand: what docs/how-to/gke.md needs, on this machine, until Ctrl-C.

    make cluster                           one slice, a v6e-16
    make cluster SLICES="v6e-16 v5e-8"     these

Pods have no TPU, only their Python sees one: what needs JAX devices runs as `-a cpu-4x1`, on nodes that are there too.

It writes a file of variables to source in other terminals. The slice's hosts are processes of this machine, the bucket
is a fake server's, in memory: nothing of either outlives the command.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "cluster"), str(TESTS / "fakes")]  # tests are no package

from administered import BUCKET, CONTEXT, IMAGES, NAMESPACE, administered, write_kubeconfig  # noqa: E402
from cluster import PREFIX, Cluster, running_cluster, sweep  # noqa: E402
from control_plane import quick_folder  # noqa: E402
from gcs import Gcs, running  # noqa: E402

VARIABLES = TESTS.parent / ".cluster.env"


@contextlib.contextmanager
def cluster_by_hand(accelerators: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The cluster and its bucket; what a terminal has to know of them."""
    sweep(quick_folder())
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=quick_folder()))
    try:
        with running(folder) as gcs, running_cluster(folder) as cluster, administered(cluster, gcs):
            for number, accelerator in enumerate(accelerators):
                cluster.add_slice(accelerator, pool=f"pool-{number}")
            cluster.add_cpus("cpus", count=4)
            yield _variables(cluster, gcs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(accelerators: Sequence[str]) -> None:
    """Start, say how it is used, stay."""
    _say("starting, which takes half a minute")
    with contextlib.suppress(KeyboardInterrupt), cluster_by_hand(accelerators) as variables:
        VARIABLES.write_text("".join(f"export {name}={shlex.quote(text)}\n" for name, text in variables.items()))
        try:
            _say(
                f"up, with {', '.join(accelerators)}; Ctrl-C ends it. In another terminal:\n\n{_usage(accelerators[0])}"
            )
            signal.pause()
        finally:
            VARIABLES.unlink()
            _say("going down")


def _variables(cluster: Cluster, gcs: Gcs, folder: Path) -> Mapping[str, str]:
    return {
        "KUBECONFIG": str(write_kubeconfig(cluster, folder / "driver.kubeconfig")),
        "PREFECT_TPU_OUTPUT": f"gs://{BUCKET}/jobs",
        **gcs.environment,
    }


def _usage(accelerator: str) -> str:
    words = f"--cluster {CONTEXT} --namespace {NAMESPACE} --service-account prefect-tpu-host"
    return (
        f"  source .venv/bin/activate && source {VARIABLES.name}\n"
        f"  prefect-tpu doctor -a {accelerator} {words}\n"
        f"  prefect-tpu run docs/examples/digits.py:main --data docs/examples/data/digits.csv.gz \\\n"
        f"      -a cpu-4x1 {words} --image {IMAGES[-1]}\n\n"
        f"Pods have no TPU: what joins runs as cpu-4x1, hello.py of docs/how-to/gke.md as {accelerator} too.\n"
        f"Images: {', '.join(IMAGES)}, each with JAX, Orbax and gcsfs; any other cannot be pulled."
    )


def _say(text: str) -> None:
    sys.stderr.write(f"cluster: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    main(sys.argv[1:] or ["v6e-16"])
