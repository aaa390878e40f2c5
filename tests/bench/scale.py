"""`make bench-scale`: what one worker costs that sees to 500 slices; writes docs/reference/work-pool-scale.md.

A real control plane, PostgreSQL and a real Prefect server; nodes and pods are objects alone. Ours and Prefect's own
worker for Kubernetes are measured one after the other on the same servers. `--slices 50 --seconds 30` only tries it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOMS = (".", "../prefect", "../fakes", "../cluster", "../cluster/chaos", "../cluster/work_pool")
sys.path += [str((HERE / room).resolve()) for room in ROOMS]  # tests are no package

import gcs as fake  # noqa: E402
import psutil  # noqa: E402
from cluster import Cluster  # noqa: E402
from control_plane import ControlPlane, Object, build, quick_folder  # noqa: E402
from control_plane.programs import Pace  # noqa: E402
from faults import Traffic  # noqa: E402
from kubelet.server import LogServer  # noqa: E402
from postgres_server import running_postgres  # noqa: E402
from prefect_server import running, running_server, wait_for  # noqa: E402
from prefect_way import way_to  # noqa: E402
from quiet_hosts import QuietHosts, add_nodes  # noqa: E402
from scale_counts import AuditLog, Cost, Meter  # noqa: E402
from scale_page import PAGE, page, text  # noqa: E402
from scale_sides import ACCELERATOR, Ours, Side, Stage, Stock  # noqa: E402
from scale_states import States  # noqa: E402

EVENTS_A_SECOND = 5
LOST_EVERY = 10  # events
CREATORS = 4
PATIENCE = 1200.0
SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.2
SIDES: dict[str, type[Ours] | type[Stock]] = {"ours": Ours, "stock": Stock}
OF_TESTS = ("PREFECT_TPU_NEIGHBOUR_VENV",)
KEEP = os.environ.get("KEEP_LOGS", "")  # a folder for what the workers said
NO_HEARTBEATS = Pace(node_grace_seconds=36_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """slices: how many. seconds: how long events come; half as long nothing happens before."""

    slices: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """All runs at once. created, taken, up: seconds until all are made, none is scheduled any more, and all run."""

    created: float
    taken: float
    up: float
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Of one side. seconds: from a pod's end to the run's state, each. missing: of which that did not come."""

    name: str
    burst: Burst
    still: Cost
    busy: Cost
    seconds: list[float]
    missing: int
    errors: list[str]


class Play:
    """One side, while it is measured."""

    def __init__(self, side: Side, stage: Stage, effort: Effort) -> None:
        self._side, self._stage, self._effort = side, stage, effort
        self._living: dict[str, Object] = {}  # run → its pod
        self._lock = threading.Lock()
        self._hands = ThreadPoolExecutor(CREATORS)

    def measure(self, process: psutil.Process, traffic: Traffic, database: str) -> Found:
        log = AuditLog(self._stage.cluster.plane.site.audit_log, self._side.user)
        asked = self._stage.gcs.asked
        with (
            Meter(process=process, prefect=traffic, cluster=log, bucket=asked) as meter,
            QuietHosts(self._stage.cluster.api, self._side.name, self._came_up) as hosts,
            States(database, self._has_left) as states,
            self._hands,
        ):
            burst = self._burst(meter, states)
            begun = meter.begin()
            time.sleep(self._effort.seconds / 2)
            still = meter.since(begun)
            begun = meter.begin()
            self._events(hosts, states)
            busy = meter.since(begun)
            with_patience(lambda: not states.missing, SETTLE_SECONDS)
            return Found(
                name=self._side.name, burst=burst, still=still, busy=busy, seconds=sorted(states.seconds),
                missing=states.missing, errors=hosts.errors,
            )  # fmt: skip

    def _burst(self, meter: Meter, states: States) -> Burst:
        begun, count = meter.begin(), self._effort.slices
        list(self._hands.map(lambda _: self._side.create(), range(count)))
        created = time.monotonic() - begun.at
        with_patience(lambda: not states.count(self._side.deployment)["SCHEDULED"])
        taken = time.monotonic() - begun.at
        with_patience(lambda: states.count(self._side.deployment)["RUNNING"] >= count)
        up = time.monotonic() - begun.at
        return Burst(created=created, taken=taken, up=up, cost=meter.since(begun))

    def _events(self, hosts: QuietHosts, states: States) -> None:
        begun, number = time.monotonic(), 0
        while (due := number / EVENTS_A_SECOND) < self._effort.seconds:
            time.sleep(max(0.0, begun + due - time.monotonic()))
            is_lost = number % LOST_EVERY == 0
            if (found := self._next(is_lost)) is None:
                pass  # of few slices all may be on their way back
            elif is_lost:
                self._side.ends(found[1])
                states.lost(found[0])
                hosts.lose(found[1])
            else:
                hosts.murmur(found[1], number)
            number += 1

    def _next(self, is_lost: bool) -> tuple[str, Object] | None:
        """The one whose turn is longest ago; its turn comes again unless it is lost."""
        with self._lock:
            if (run := next(iter(self._living), None)) is None:
                return None
            pod = self._living.pop(run)
            if not is_lost:
                self._living[run] = pod
        return run, pod

    def _came_up(self, pod: Object) -> None:
        """The engine of the flow would say so."""
        run = self._side.run_of(pod)
        self._side.came_up(pod)
        self._stage.server.ask(f"/flow_runs/{run}/set_state", state={"type": "RUNNING", "name": "Running"})
        with self._lock:
            self._living[run] = pod

    def _has_left(self, run: str) -> None:
        if not self._side.comes_back:  # another run takes its place, so that there are as many
            self._hands.submit(self._side.create)


def with_patience(look: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether it came to be so. What did not come is told, and what is there is measured all the same."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if look():
            return True
        time.sleep(LOOK_SECONDS)
    return False


@contextmanager
def stage(folder: Path, slices: int) -> Iterator[tuple[Stage, Traffic, str]]:
    """All servers, and the nodes."""
    traffic = Traffic()
    users = [side(stage=None).user for side in SIDES.values()]  # type: ignore[arg-type]
    plane = ControlPlane(build.ready(), folder, NO_HEARTBEATS, users)
    with (
        plane,
        fake.running(folder) as gcs,
        running_postgres(folder) as database,
        running_server(folder, {}, database=database) as server,
        way_to(server, traffic) as way,
        ExitStack() as ending,
    ):
        logs = LogServer(plane.site.serving, lambda asked: iter(()))  # nothing was written in any pod
        ending.callback(logs.stop)
        cluster = Cluster(plane=plane, kubelet=None)  # type: ignore[arg-type]  # nothing runs on its nodes
        add_nodes(plane.api, ACCELERATOR, slices, logs.port)
        yield Stage(cluster=cluster, server=server, gcs=gcs, folder=folder, way=way.url), traffic, database


def measure(effort: Effort, names: list[str]) -> Iterator[Found]:
    """One after the other, on the same servers."""
    with ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory(dir=quick_folder()))
        place, traffic, database = running.enter_context(stage(Path(folder).resolve(), effort.slices))
        for word in names:
            yield one_side(place, effort, SIDES[word](stage=place), traffic, database)


def one_side(place: Stage, effort: Effort, side: Side, traffic: Traffic, database: str) -> Found:
    side.prepare()
    log = place.folder / f"{side.name}.log"
    with running(list(side.command), side.environment, place.folder, side.name) as process:
        wait_for(lambda: is_online(place, side.name) or process.poll() is not None, f"the worker of {side.name}")
        assert process.poll() is None, log.read_text()
        found = Play(side, place, effort).measure(psutil.Process(process.pid), traffic, database)
    if KEEP:
        (Path(KEEP) / log.name).write_text(log.read_text())
    place.cluster.api.delete(f"/api/v1/namespaces/{side.name}/pods", None, gracePeriodSeconds=0)
    place.cluster.api.delete(f"/api/v1/namespaces/{side.name}")
    return found


def is_online(place: Stage, pool: str) -> bool:
    found = place.server.ask(f"/work_pools/{pool}/workers/filter", limit=10)
    return any(one["status"] == "ONLINE" for one in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=180.0, help="how long events come")
    parser.add_argument("--only", choices=SIDES, help="this side alone; no page is written")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        if name not in OF_TESTS:
            del os.environ[name]
    effort, found = Effort(slices=options.slices, seconds=options.seconds), []
    for one in measure(effort, [options.only] if options.only else list(SIDES)):
        found.append(one)
        print(text(one), flush=True)
    if not options.only and options.slices == parser.get_default("slices"):
        PAGE.write_text(page(found, effort))
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
