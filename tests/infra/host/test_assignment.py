"""Which host a process is: said by a number, or found out from what Kubernetes says of its pod."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.host.assignment import INDEX, NotOurs, assignment, host_number
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage

MakePlan = Callable[..., HostPlan]


@pytest.mark.parametrize(
    ("arguments", "environment", "number"),
    [
        (["3"], {}, 3),
        (["3"], {Env.HOST: "1"}, 3),
        ([], {Env.HOST: "1"}, 1),
        ([], {Env.HOST: "1", INDEX: "0", Env.SLICE: "1"}, 1),
        ([], {INDEX: "0", Env.SLICE: "0"}, 0),
        ([], {INDEX: "1", Env.SLICE: "0"}, 1),
        ([], {INDEX: "0", Env.SLICE: "1"}, 2),
        ([], {INDEX: "1", Env.SLICE: "1"}, 3),
    ],
)
def test_hosts_are_counted_over_all_slices(
    make_plan: MakePlan, arguments: list[str], environment: dict[str, str], number: int
) -> None:
    assert host_number(make_plan(slices=2), arguments, environment) == number


def test_a_pod_of_the_only_slice_need_not_say_which_it_is(make_plan: MakePlan) -> None:
    assert host_number(make_plan(), [], {INDEX: "3"}) == 3
    assert host_number(make_plan(hosts=1), [], {}) == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "why"),
    [
        ([], {}, "Which of 4 hosts this is, is not said: set PREFECT_TPU_HOST"),
        (["4"], {}, "This is host 4, and /out/digits/3 has 2 x 2 hosts, from 0"),
        (["-1"], {}, "A host's number is '-1'"),
        ([], {Env.HOST: "leader"}, "A host's number is 'leader'"),
        ([], {INDEX: "2", Env.SLICE: "0"}, "This is pod 2 of slice 0"),  # not the first of slice 1
        ([], {INDEX: "0", Env.SLICE: "2"}, "This is pod 0 of slice 2"),
    ],
)
def test_a_host_that_is_not_there_is_refused(
    make_plan: MakePlan, arguments: list[str], environment: dict[str, str], why: str
) -> None:
    with pytest.raises(NotOurs, match=why):
        host_number(make_plan(slices=2), arguments, environment)


@pytest.fixture
def sent(make_plan: MakePlan, storage: LocalStorage) -> Callable[..., tuple[HostPlan, str]]:
    """A plan in its place, and that place."""

    def send(**changes: object) -> tuple[HostPlan, str]:
        plan = make_plan(output=str(storage.root), **changes)
        storage.put(layout.plan(3), plan.to_json())
        return plan, str(storage.path(layout.plan(3)))

    return send


def test_on_one_disk_program_and_runner_read_the_plan_where_it_was_sent(
    sent: Callable[..., tuple[HostPlan, str]], storage: LocalStorage
) -> None:
    plan, place = sent()
    found = assignment([place, "1"], {Env.ATTEMPT: plan.mark})
    assert (found.plan, found.host, str(found.plan_path)) == (plan, 1, place)
    assert found.scratch == storage.path(layout.scratch(3, 1))
    assert found.archive is None


def test_a_disk_of_its_own_has_a_copy(sent: Callable[..., tuple[HostPlan, str]], tmp_path: Path) -> None:
    plan, place = sent(scratch=str(tmp_path / "disk"))
    found = assignment([place], {INDEX: "2", Env.ATTEMPT: plan.mark})
    assert found.scratch == tmp_path / "disk" / "digits-3" / "2"
    assert found.plan_path == found.scratch / "plan.json"


def test_another_attempts_plan_is_refused(sent: Callable[..., tuple[HostPlan, str]]) -> None:
    plan, place = sent()
    other = plan.mark.removesuffix("3") + "4"
    with pytest.raises(NotOurs, match=f"made for {other}, and the plan it was given is {plan.mark}'s"):
        assignment([place, "1"], {Env.ATTEMPT: other})
