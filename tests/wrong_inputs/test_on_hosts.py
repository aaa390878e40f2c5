"""What only the hosts can find: each run ends with its code and one message, and leaves no process and no lock."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import lay_out
from stored import NAME, begun, ended, under_way

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.launcher.checkpoints import newest_whole
from prefect_tpu.infra.packing import pack_function
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(240)]

PROGRAMS = Path(__file__).parents[1] / "programs"
SAVER = f"{PROGRAMS}/saver.py:main"

SOURCES = {
    "raises.py": "raise RuntimeError('no licence found')\ndef main(): pass\n",
    "imports.py": "import no_such_library\ndef main(): pass\n",
    "shadow.py": "def main(): pass\nmain = None or 3\n",
    "mesh.py": "import prefect_tpu as tpu\ndef main(spec):\n    tpu.join()\n    tpu.mesh(spec)\n",
    "lambda_.py": "import prefect_tpu as tpu\ndef main():\n    return (n for n in [1])\n",
    "every.py": "import prefect_tpu as tpu\ndef main():\n    tpu.join()\n    tpu.checkpoints(every=0)\n",
    "steps.py": "import prefect_tpu as tpu\ndef main():\n    tpu.report('ten')\n",
}
MESH = ["mesh.py:main", "-a", "cpu-1x4"]

# what is called, the kind of failure, and what its message says
CASES: dict[str, tuple[list[str], str, str]] = {
    "raises while it is imported": (["raises.py:main"], "program_error", "RuntimeError: no licence found"),
    "imports what is not installed": (["imports.py:main"], "program_error", "No module named 'no_such_library'"),
    "is no function in the end": (["shadow.py:main"], "program_error", "shadow.py has no function 'main' to run"),
    "returns what cannot be sent": (["lambda_.py:main"], "program_error", "returned a generator, which cannot be sent"),
    "mesh that does not divide": ([*MESH, "-p", 'spec={"a": 3, "b": -1}'], "program_error", "does not divide 4"),
    "mesh of unknown text": ([*MESH, "-p", "spec=four by four"], "program_error", "cannot be read: write {"),
    "mesh that leaves devices idle": ([*MESH, "-p", 'spec={"a": 2}'], "program_error", "it leaves devices idle"),
    "mesh of a fraction": ([*MESH, "-p", 'spec={"a": 2.5}'], "program_error", "has the size 2.5"),
    "no time between checkpoints": (["every.py:main"], "program_error", "give a number of seconds above 0"),
    "a step in words": (["steps.py:main"], "program_error", "report() was given a str as its step"),
    "more hosts than the machine lends": (
        ["sh", "-a", "v6e-256"],
        "no_capacity",
        "64 hosts needed, 16 hosts available",
    ),
}


@pytest.fixture(scope="module")
def runs(new_machine: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """Every call of the table, ended."""
    with new_machine() as machine:
        lay_out(machine.folder)
        for name, source in SOURCES.items():
            (machine.folder / name).write_text(source)
        ended = {}
        for number, (name, (words, *_)) in enumerate(CASES.items()):
            options = ["--name", f"case-{number}", "--json"]
            ended[name] = machine.prefect_tpu("run", *options, *words, PREFECT_TPU_LOCAL_SLICES="2")
            ended[name].wait(60)
        assert machine.left() == []
        yield ended


@pytest.mark.parametrize("case", CASES)
def test_what_the_hosts_find_ends_the_job_with_one_message(runs: dict[str, Any], case: str) -> None:
    _, kind, says = CASES[case]
    process = runs[case]
    assert process.wait() == 1, process.err
    result = process.result()
    assert (result["state"], result["failure"]["kind"]) == ("failed", kind)
    assert result["failure"]["message"].count(says) == 1, result["failure"]
    assert result["failure"]["advice"] and len(result["attempts"]) <= 1


@pytest.fixture
def drive(machine: Any) -> Callable[[LocalStorage, Any], Any]:
    """Drives a job that lies there to its end, in a process of its own; its result."""

    def run(storage: LocalStorage, job: Any) -> Any:
        path = machine.folder / f"{job.name}.json"
        path.write_bytes(job.to_json())
        return machine.start(sys.executable, "-P", PROGRAMS / "drive.py", path, storage.root).result()

    return run


def asked(machine: Any, **changes: Any) -> tuple[LocalStorage, Any]:
    values = {"name": "job", "program": f"{PROGRAMS}/plain.py:read", "accelerators": ("cpu",)}
    request = Request(**{**values, "output": str(machine.output), **changes})
    return LocalStorage(machine.output / "job"), prepare(request)


def change(storage: LocalStorage, name: str) -> None:
    storage.put(name, (storage.get(name) or b"") + b"x")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (change, "was changed after it was sent"),
        (LocalStorage.delete, "is missing from"),
        (lambda storage, name: storage.put(name, b""), "was changed after it was sent"),
    ],
    ids=["changed", "missing", "empty"],
)
def test_a_payload_that_is_not_what_was_sent_is_refused_and_sent_again(
    machine: Any, drive: Any, damage: Callable[[LocalStorage, str], object], says: str
) -> None:
    storage, job = asked(machine)
    damage(storage, layout.payload(job.program.payload))
    failure = drive(storage, job)["failure"]
    assert (failure["kind"], failure["host"], failure["retryable"]) == ("refused", 0, False)
    assert failure["message"].count(says) == 1 and storage.url in failure["message"]
    assert asked(machine)[1] == job  # which sends it again
    assert drive(storage, job)["state"] == "succeeded"
    assert machine.left() == []


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ({"python": "3.99", "cloudpickle": "3.1.0"}, "was pickled by Python 3.99 and this host has Python"),
        (
            {"python": ".".join(map(str, sys.version_info[:2])), "cloudpickle": "99.0"},
            "was pickled by cloudpickle 99.0",
        ),
    ],
)
def test_a_host_with_another_python_refuses_a_function(machine: Any, drive: Any, versions: Any, says: str) -> None:
    def program() -> int:
        return 1

    storage = LocalStorage(machine.output / "job")
    payload = _with_versions(pack_function(program, {}).payload or b"", versions)
    sha256 = _put(storage, payload)
    _, job = asked(machine, program=f"payload:{sha256}:program")
    failure = drive(storage, job)["failure"]
    assert (failure["kind"], failure["retryable"]) == ("refused", False)
    assert failure["message"].count(says) == 1 and "or name the program as module:function" in failure["message"]
    assert machine.left() == []


def _with_versions(payload: bytes, versions: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(payload)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            new.writestr(name, json.dumps(versions) if name == Payload.VERSIONS else old.read(name))
    return written.getvalue()


def _put(storage: LocalStorage, payload: bytes) -> str:
    sha256 = hashlib.sha256(payload).hexdigest()
    storage.put(layout.payload(sha256), payload)
    return sha256


def test_a_disk_that_is_full_during_a_save_damages_nothing_and_the_job_goes_on_once_there_is_room(machine: Any) -> None:
    words = ("run", SAVER, "--name", "full", "-a", "cpu-2x1", "-p", "steps=6", "-p", "full_at=3", "--json")
    full = machine.prefect_tpu(*words)
    assert full.wait(120) == 1, full.err
    storage, message = LocalStorage(machine.output / "full"), full.result()["failure"]["message"]
    found = re.match(
        r"PlatformError: The checkpoint .*/checkpoints/1/(\d+) could not be written: File too large\.", message
    )
    assert found is not None and message.count("could not be written") == 1, message
    assert "Make room there" in message
    whole = newest_whole(storage, below=2)
    assert whole is not None and whole.step < int(found[1])
    storage.put("mended", b"")
    again = machine.prefect_tpu(*words)
    assert again.wait(120) == 0, again.err
    assert again.result()["value"]["start"] == whole.step + 1
    assert json.loads(storage.get(layout.plan(2)) or b"")["restore"] == {"attempt": 1, "step": whole.step}
    assert newest_whole(storage, below=3) == RestorePoint(attempt=2, step=5)
    assert machine.left() == []


@pytest.mark.parametrize(
    ("lay_down", "name"),
    [
        (begun, layout.JOB),
        (under_way, layout.plan(1)),
        (lambda output: ended(output, "succeeded"), layout.RESULT),
        (lambda output: ended(output, "failed"), layout.RESULT),
        (lambda output: ended(output, "failed"), layout.outcome(1)),
    ],
)
def test_what_is_damaged_may_be_deleted_as_the_message_says(
    machine: Any, monkeypatch: pytest.MonkeyPatch, lay_down: Callable[[Path], LocalStorage], name: str
) -> None:
    lay_out(machine.folder)
    monkeypatch.chdir(machine.folder)
    storage = lay_down(machine.output)
    storage.put(name, b"{")
    words = ("run", "train.py:main", "--name", NAME)
    damaged = machine.prefect_tpu(*words)
    assert damaged.wait() == 3 and "delete it and run the job again" in damaged.err
    storage.delete(name)
    mended = machine.prefect_tpu(*words)
    assert mended.wait() in (0, 1), mended.err
    again = machine.prefect_tpu(*words, "--json")
    assert again.wait() == 0, again.err
    assert again.result()["state"] == "succeeded"
    assert machine.left() == []
