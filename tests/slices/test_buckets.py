"""Checkpoints in a bucket, by real JAX processes, Orbax, gcsfs and TensorStore against a fake of Cloud Storage."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from gcs import Gcs

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.checkpoints import is_whole, newest_whole, prune, sealed
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, open_storage

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Slice  # noqa: E402
from bare_hosts import slice_ as slice_  # noqa: E402  # a fixture, by its being here

pytestmark = [pytest.mark.slices, pytest.mark.timeout(400)]
STEPS = 6


@pytest.fixture
def output(bucket: str) -> str:
    return f"{bucket}/jobs/job"


@pytest.fixture
def job(output: str) -> Storage:
    return open_storage(output)


def start(slice_: Slice, output: str, *, hosts: int, devices: int, steps: int, restore: RestorePoint | None = None):
    plan = slice_.plan(hosts, devices, output=output, restore=restore, checkpoint_every=1e-3)
    return slice_.start(plan, "train", steps=steps)


def test_two_processes_save_and_other_slices_go_on_from_it(slice_: Slice, output: str, job: Storage) -> None:
    first = start(slice_, output, hosts=2, devices=2, steps=STEPS - 2).values()
    assert [value["start"] for value in first] == [0, 0]
    newest = newest_whole(job, below=2)
    assert newest == RestorePoint(attempt=1, step=STEPS - 3)
    names = job.list(layout.checkpoints(1))
    assert {f"{layout.checkpoints(1)}/{newest.step}/state/{name}" for name in ("manifest.ocdbt", "_METADATA")} <= {
        *names
    }
    (alone,) = start(slice_, output, hosts=1, devices=1, steps=STEPS - 1, restore=newest).values()
    assert alone["start"] == STEPS - 2
    newest = newest_whole(job, below=3)
    assert newest == RestorePoint(attempt=2, step=STEPS - 2)
    last = start(slice_, output, hosts=2, devices=1, steps=STEPS, restore=newest).values()
    (whole,) = start(slice_, output + "-whole", hosts=1, devices=4, steps=STEPS).values()
    assert [value["digest"] for value in last] == [whole["digest"]] * 2
    assert last[0]["drawn"] == STEPS


def test_a_torn_checkpoint_is_seen_by_a_look_and_refused_by_a_host(
    slice_: Slice, output: str, job: Storage, gcs: Gcs
) -> None:
    start(slice_, output, hosts=1, devices=2, steps=4).values()
    points = sealed(job)
    assert len(points) >= 2
    newest, before = points[:2]
    folder = f"{layout.checkpoints(1)}/{newest.step}"
    largest = max(job.facts(folder).items(), key=lambda found: found[1].bytes)[0]
    raw = bytearray(job.get(largest) or b"")
    raw[len(raw) // 2] ^= 1
    with gcs.watched() as requests:
        assert newest_whole(job, below=2) == newest
    read = [request for request in requests if request.query.get("alt") == "media"]
    assert len(read) == 1, "the seal alone is read"
    job.put(largest, bytes(raw))
    assert not is_whole(job, newest)
    assert newest_whole(job, below=2) == before
    (outcome,) = start(slice_, output, hosts=1, devices=2, steps=5, restore=newest).outcomes()
    assert outcome["error"] == "PlatformError" and "is not whole" in outcome["message"]


def test_old_checkpoints_and_unfinished_ones_go(slice_: Slice, output: str, job: Storage) -> None:
    start(slice_, output, hosts=1, devices=1, steps=6).values()
    points = sealed(job)
    assert len(points) > 3
    job.delete(layout.checkpoint_seal(1, points[-1].step))
    job.put(layout.outcome(1), b"{}")
    assert prune(job, in_use=None) == points[3:-1]
    assert sealed(job) == points[:3]
    kept = {str(point.step) for point in points[:3]}
    assert {*job.children(layout.checkpoints(1))} == kept | {f"{step}{layout.SEALED}" for step in kept}


def test_outside_a_job_a_folder_of_a_bucket_serves_too(slice_: Slice, output: str) -> None:
    run = {"every": 1e-3, "directory": f"{output}/mine"}
    (first,) = slice_.start_outside("train", steps=3, **run).values()
    (second,) = slice_.start_outside("train", steps=5, **run).values()
    assert (first["start"], second["start"]) == (0, 3)
