"""Flows on slices of several hosts, by real processes: what regions see and return, and how each end is told."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(400)]

PROGRAMS = Path(__file__).parents[1] / "programs"
PATIENCE = 180.0  # seconds; a busy machine takes long
SECRETS = {"PREFECT_API_KEY": "pnu_key", "PREFECT_RESULTS_SECRET": "word"}


class Flow:
    """A job whose program is a flow of `tests/programs/flows.py`."""

    def __init__(self, machine: Any, name: str, **settings: Any) -> None:
        words = (str(PROGRAMS / "flows.py"), name)
        program = Program(kind="flow", target="python", arguments=words)
        env = {"PREFECT__FLOW_RUN_ID": "6e4e", "PREFECT_API_URL": "http://127.0.0.1:9/api"}
        self.job = SliceJob(name=name, program=program, accelerators=("cpu-2x1",), env=env, **settings)
        self.machine, self.storage = machine, LocalStorage(machine.output / name)
        self.storage.put_if_absent(layout.JOB, self.job.to_json())

    def drive(self) -> Any:
        path = self.machine.folder / f"{self.job.name}.json"
        path.write_bytes(self.job.to_json())
        return self.machine.start(sys.executable, "-P", PROGRAMS / "drive.py", path, self.storage.root, **SECRETS)

    def text(self, name: str) -> str:
        return (self.storage.get(name) or b"").decode()

    def record(self, host: int, attempt: int = 1) -> HostRecord:
        return HostRecord.from_json(self.storage.get(layout.record(attempt, host)) or b"")

    def waits(self, attempt: int) -> bool:
        """Whether both hosts are in their region."""
        return all(self.text(f"waits/{attempt}-{host}") for host in (0, 1))

    def process(self, host: int, attempt: int = 1) -> psutil.Process:
        """Of a region, on a host."""
        return psutil.Process(int(self.text(f"waits/{attempt}-{host}")))

    def runner(self, host: int, attempt: int = 1) -> psutil.Process:
        return psutil.Process(json.loads(self.text(layout.started(attempt, host)))["pid"])


def ended_in(driver: Any) -> dict[str, Any]:
    """The job's result."""
    driver.wait(PATIENCE)
    return driver.result()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def ended(new_machine: Callable[[], Any]) -> Iterator[Flow]:
    """A flow with regions of many kinds, at its end."""
    with new_machine() as machine:
        flow = Flow(machine, "regions")
        result = ended_in(flow.drive())
        assert result["state"] == "succeeded", (result, flow.text(layout.log(1, 0)))
        assert machine.left() == []
        yield flow


@pytest.fixture(scope="module")
def found(ended: Flow) -> dict[str, Any]:
    return json.loads(ended.text("found.json"))  # type: ignore[no-any-return]


def test_a_region_runs_on_every_host_in_a_process_of_its_own(found: dict[str, Any]) -> None:
    first, second = found["first"], found["second"]
    assert [(value["host"], value["hosts"], value["rank"]) for value in first] == [(0, 2, "0"), (1, 2, "1")]
    assert len({value["pid"] for value in [*first, second]}) == 3
    assert first[0]["port"] == first[1]["port"] != second["port"], "the next region meets elsewhere"


def test_the_persons_own_modules_travel(found: dict[str, Any]) -> None:
    assert found["second"]["word"] == "two came along"


def test_what_is_for_prefect_reaches_the_flow_and_no_region(found: dict[str, Any]) -> None:
    env = found["env"]
    assert (env["PREFECT_API_KEY"], env["PREFECT__FLOW_RUN_ID"], env["PREFECT_RESULTS_SECRET"]) == (
        "pnu_key",
        "6e4e",
        "word",
    )
    assert env["RANK"] is None, "the flow is none of the program's processes"
    assert [value["seen"] for value in found["first"]] == [[], []]
    assert found["first"][1]["url"] == "http://127.0.0.1:9/api"


def test_a_second_region_waits_for_the_first(ended: Flow, found: dict[str, Any]) -> None:
    assert found["at once"] == [0, 0]
    assert "Region where waits until region where has ended." in ended.text(layout.log(1, 0))


def test_an_exception_of_a_region_is_raised_in_the_flow_with_the_hosts_traceback(found: dict[str, Any]) -> None:
    kind, message, cause, note = found["raised"]
    assert (kind, message, cause) == ("Refused", "no such day", "RegionFailed")
    assert note.startswith("Raised on host 1:\nTraceback")
    assert 'raise Refused("no such day")' in note


def test_a_region_that_leaves_by_itself_is_told(found: dict[str, Any]) -> None:
    kind, message, *_ = found["left"]
    assert kind == "RegionFailed"
    said = r"Region 'leave' failed: host [01] raised SystemExit: the program called sys\.exit\(3\)"
    assert re.fullmatch(said, message), "whichever of them left first"


def test_what_cannot_be_done_is_said(found: dict[str, Any]) -> None:
    assert found["nested"][:2] == [
        "UsageError",
        "every_host was called inside a region, which runs on every host already: call the function itself.",
    ]
    assert found["lock"][1].startswith("Argument 'word' of 'where' (a _thread.lock) cannot be sent")
    assert found["joined"][1].startswith("prefect_tpu.join() was called in the flow itself")
    assert found["after"] == "five came along", "and the next region runs"


def test_jax_in_the_flow_says_what_to_do(found: dict[str, Any]) -> None:
    assert "this flow runs on the leader of a slice of 2 hosts, and JAX needs all of them" in found["jax"]
    assert "Call prefect_tpu.every_host(function)(...) in it" in found["jax"]


def test_the_key_is_for_the_owner_of_the_folder_alone(ended: Flow) -> None:
    assert ended.storage.path(layout.REGION_KEY).stat().st_mode & 0o777 == 0o600


def test_a_command_that_fails_is_a_program_error(machine: Any) -> None:
    result = ended_in(Flow(machine, "code").drive())
    assert (result["state"], result["failure"]["kind"]) == ("failed", "program_error")
    assert result["failure"]["message"] == "The program ended with exit code 3."


@pytest.mark.parametrize("whose", ["region", "runner"])
def test_a_killed_host_ends_the_flow_as_it_stands(machine: Any, wait_until: Any, whose: str) -> None:
    flow = Flow(machine, "waits")
    driver = flow.drive()
    wait_until(lambda: flow.waits(1), "the region", PATIENCE)
    (flow.process(1) if whose == "region" else flow.runner(1)).kill()
    wait_until(lambda: flow.waits(2), "the region of the second attempt", PATIENCE)
    flow.storage.put("go", b"")
    result = ended_in(driver)
    assert result["state"] == "succeeded", result
    failure = result["attempts"][0]["failure"]
    assert (failure["kind"], failure["host"]) == ("host_lost", 1), failure
    assert flow.text("notes") == "returned in 2\n", "nothing came back in the first attempt"


def test_a_notice_ends_region_and_flow(machine: Any, wait_until: Any) -> None:
    flow = Flow(machine, "waits")
    driver = flow.drive()
    wait_until(lambda: flow.waits(1), "the region", PATIENCE)
    flow.runner(1).terminate()
    wait_until(lambda: flow.waits(2), "the region of the second attempt", PATIENCE)
    flow.storage.put("go", b"")
    result = ended_in(driver)
    failure = result["attempts"][0]["failure"]
    assert (result["state"], failure["kind"], failure["host"]) == ("succeeded", "preempted", 1)
    assert flow.text("notes") == "returned in 2\n"


@pytest.mark.parametrize("noticed", [(0, 1), (0,)], ids=["both noticed", "the leader alone"])
def test_a_host_that_saves_is_left_to_it_when_the_flow_is_over(
    machine: Any, wait_until: Any, noticed: tuple[int, ...]
) -> None:
    flow = Flow(machine, "saves")
    driver = flow.drive()
    wait_until(lambda: flow.waits(1), "the region", PATIENCE)
    for host in noticed:
        flow.runner(host).terminate()
    result = ended_in(driver)
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["preempted", "succeeded"], result
    assert flow.text("saved") == "all of it", [result, *(flow.text(layout.log(1, host)) for host in (0, 1))]


def test_regions_are_guarded_and_recorded_as_programs_are(machine: Any) -> None:
    flow = Flow(machine, "guards", mesh='{"rows": 2, "columns": 1}', profile="skip=2,steps=1")
    result = ended_in(flow.drive())
    assert result["state"] == "succeeded", (result, flow.text(layout.log(1, 0)))
    found, mesh = json.loads(flow.text("found.json")), {"rows": 2, "columns": 1}
    assert (found["alike"], found["after"]) == ([mesh, mesh], mesh)
    kind, message, *_ = found["misses"]
    assert (kind, message) == (
        "HostsMissing",
        "Barrier 'trained' was not reached by host 1 within 1 s. Host 1 was last at step 3. Look at the log of this"
        " host, or give the barrier a longer timeout.",
    )
    kind, message, *_ = found["differs"]
    assert kind == "RegionFailed"
    said = "Region 'guarded' failed: host 1 raised HostsDiffer: Host 1 came to step 3 at call 3 of agree(),"
    assert message.startswith(said)
    assert found["in the flow"][1].startswith("prefect_tpu.barrier() was called in the flow itself")
    logs = [flow.text(layout.log(1, host)) for host in (0, 1)]
    shown = "shown: float32[4] over 2 devices as ('rows',) = [0. 0. 1. 1.]"
    assert [log.count(line) for log in logs for line in ("printed once alike", shown)] == [1, 2, 0, 0]
    assert "Where this host stood" in logs[0] and "multihost_utils.process_allgather" in logs[0]
    recorded = [name for name in flow.storage.list(layout.PROFILE) if name.endswith(".xplane.pb")]
    assert len(recorded) == 2 * 4 and len({name.rpartition("/")[0] for name in recorded}) == 4, recorded


def test_regions_train_together_and_each_goes_on_from_its_own_checkpoint(machine: Any, wait_until: Any) -> None:
    flow = Flow(machine, "trains")
    driver = flow.drive()
    wait_until(lambda: int(flow.text("trains-long") or 0) >= 3, "a step of the second region", PATIENCE)
    flow.runner(1).terminate()
    result = ended_in(driver)
    assert result["state"] == "succeeded", (result, flow.text(layout.log(1, 0)))
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["preempted", "succeeded"]
    assert result["attempts"][0]["saved_step"] >= 3, "so the disruption costs nothing"
    short, long = json.loads(flow.text("found.json"))
    assert (short["start"], short["devices"]) == (2, 2), "the first had ended: it goes on behind its last step"
    assert long["start"] > 3
    assert long["total"] == 2 * (long["start"] + 2), "no step was lost or done twice"
