"""A flow on hosts that are started as pods, from the archive: with the job's key, with another one, and with none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.contract import Env, ExitCode
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.packing import Packed
from prefect_tpu.infra.plan import HostPlan

KEY = {Env.REGION_KEY: "5e" * 32}
FLOW = """\
import prefect_tpu as tpu

def part(word):
    here = tpu.info()
    return [word, here.host, here.hosts]

print(tpu.every_host(part, gather=True)("hello"))
"""

KILLED = """\
import json, os, signal, tempfile

code, own = (tempfile.mkdtemp(prefix=f"prefect-{what}-") for what in ("flow-run", "workspace-attempt"))
with open(f"{own}/supervisor.json", "w") as file:
    json.dump({"flow_run_id": os.environ["PREFECT__FLOW_RUN_ID"], "workspace_root": code}, file)
print("here", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def plan(pods: Any, free_port: Callable[[], int]) -> HostPlan:
    script = pods.folder / "flow.py"
    script.write_text(FLOW)
    program = Program(kind="flow", target="python", arguments=(str(script),))
    return pods.send(  # type: ignore[no-any-return]
        Packed(program=program, payload=None), 2, regions=f"127.0.0.1:{free_port()}", join_timeout=40.0
    )


def test_a_region_runs_on_hosts_that_have_nothing_of_ours(pods: Any, plan: HostPlan) -> None:
    leader, follower = (pods.start(plan, host, **KEY) for host in (0, 1))
    assert (leader.wait(), follower.wait()) == (ExitCode.DONE, ExitCode.DONE), leader.out + leader.err
    assert "[['hello', 0, 2], ['hello', 1, 2]]" in leader.out


def test_a_host_with_another_key_is_sent_away_and_says_so(pods: Any, plan: HostPlan) -> None:
    leader = pods.start(plan, 0, **KEY)
    follower = pods.start(plan, 1, **{Env.REGION_KEY: "00" * 32})
    assert follower.wait() == ExitCode.PAYLOAD_REFUSED
    assert "does not take the region key of this process" in pods.record(1).error.message
    leader.popen.terminate()
    leader.wait()
    assert "A caller did not know the region key of this job. It was sent away." in leader.out


def test_a_host_without_a_key_says_where_it_should_come_from(pods: Any, plan: HostPlan) -> None:
    leader = pods.start(plan, 0)
    assert leader.wait() == ExitCode.PAYLOAD_REFUSED
    assert "was given no region key (PREFECT_TPU_REGION_KEY)" in leader.last_words.error.message
    assert "the Secret of the job" in leader.last_words.error.message


def test_a_region_does_not_wait_for_ever_for_a_host_that_never_comes(pods: Any, plan: HostPlan) -> None:
    plan = pods.send(Packed(program=plan.program, payload=None), 2, regions=plan.regions, join_timeout=1.0)
    leader = pods.start(plan, 0, **KEY)
    assert leader.wait() == ExitCode.LOST_PEER
    error = leader.last_words.error
    assert error.type == "CouldNotJoin"
    assert error.message.startswith(
        f"Region 'part' could not begin: of 2 hosts of {plan.mark}, 1 did not come within 1 s"
    )


def test_what_prefect_leaves_of_a_killed_flow_goes_with_it(
    pods: Any, free_port: Callable[[], int], tmp_path: Path
) -> None:
    """Its folders have the flow's environment. The script stands for `prefect flow-run execute`, which makes them."""
    place, script = tmp_path / "temporary", pods.folder / "killed.py"
    place.mkdir()
    script.write_text(KILLED)
    plan = pods.send(
        Packed(program=Program(kind="flow", target="python", arguments=(str(script),)), payload=None), 1,
        regions=f"127.0.0.1:{free_port()}",
    )  # fmt: skip
    leader = pods.start(plan, 0, **KEY, TMPDIR=str(place), PREFECT__FLOW_RUN_ID="ea4204ed")
    leader.wait()
    assert leader.last_words.program_signal == 9 and "here" in leader.out, leader.out + leader.err
    assert not list(place.glob("prefect-*"))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_command_that_is_not_there_is_named_in_what_the_host_says_last(
    pods: Any, free_port: Callable[[], int], is_there: bool
) -> None:
    """One that is there may end with the same code; then that is its own word."""
    words = ("sh", "-c", "exit 127") if is_there else ("prefekt", "flow-run", "execute")
    program = Program(kind="flow", target=words[0], arguments=words[1:])
    plan = pods.send(Packed(program=program, payload=None), 1, regions=f"127.0.0.1:{free_port()}")
    leader = pods.start(plan, 0, **KEY)
    assert leader.wait() == ExitCode.PROGRAM_RAISED
    record = leader.last_words
    assert record.program_code == 127
    if is_there:
        assert record.error is None
    else:
        assert (
            record.error.type == "NoSuchCommand" and "the flow's command 'prefekt' is not there" in record.error.message
        )
