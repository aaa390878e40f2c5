"""How long pods have to leave, and when Kubernetes ends them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.gcp.lifetimes import active_deadline, lifetime, pod_grace, pool_lifetime, program_grace

seconds = st.floats(0.1, 1e7)


def test_a_spot_node_gives_fifteen_seconds_of_which_the_program_has_ten() -> None:
    assert (program_grace(30.0, "spot"), pod_grace(30.0, "spot")) == (10, 15)
    assert (program_grace(4.0, "spot"), pod_grace(4.0, "spot")) == (4.0, 9)
    assert (program_grace(30.0, "reserved"), pod_grace(30.2, "")) == (30.0, 36)


@given(seconds, st.sampled_from(["", "spot", "on-demand", "queue"]))
def test_a_program_has_left_before_its_pod_is_killed(grace: float, capacity: str) -> None:
    program = program_grace(grace, capacity)
    assert 0 < program <= grace and program < pod_grace(grace, capacity)
    assert pod_grace(program, capacity) == pod_grace(grace, capacity)  # a plan has the program's already


@given(seconds, st.none() | seconds, seconds)
def test_kubernetes_ends_an_attempt_only_after_its_hosts_have(
    wait: float, deadline: float | None, grace: float
) -> None:
    active = active_deadline(wait, deadline, grace)
    assert active > wait + (deadline or 0) + grace and lifetime(active, 60) > active + 60


@given(seconds, st.none() | seconds, seconds, st.floats(0, 1))
def test_a_pool_may_be_deleted_by_anybody_only_after_kubernetes_has_ended_what_ran_on_it(
    wait: float, deadline: float | None, grace: float, waited: float
) -> None:
    sent = waited * wait  # seconds after its pool was made
    assert pool_lifetime(wait, deadline, grace) >= sent + active_deadline(wait, deadline, grace)
