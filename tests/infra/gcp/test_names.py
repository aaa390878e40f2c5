"""Names of hosts stay within Kubernetes' limits for every job, and the largest slice's within Linux's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import every_name, resolve
from prefect_tpu.infra.gcp import names
from prefect_tpu.infra.host.environment import LIBTPU_PORT

MOST_HOSTS = max(resolve(name).hosts for name in every_name() if name.startswith("tpu7x-16x") or name == "v6e-256")
LONGEST = "abcdefghij-lmnopqr"


def test_a_host_is_found_by_its_attempt_its_slice_and_its_number() -> None:
    assert names.host_addresses("digits", 3, 2, 2) == (
        "digits-3-s-0-0.digits-3",
        "digits-3-s-0-1.digits-3",
        "digits-3-s-1-0.digits-3",
        "digits-3-s-1-1.digits-3",
    )
    assert names.coordinator("digits", 3) == "digits-3-s-0-0.digits-3:8482"


@given(st.from_regex(layout.JOB_NAME, fullmatch=True), st.integers(1, 10**5), st.integers(1, 9), st.integers(1, 9))
def test_addresses_are_labels(job: str, attempt: int, slices: int, hosts: int) -> None:
    addresses = names.host_addresses(job, attempt, slices, hosts)
    assert len(set(addresses)) == slices * hosts and addresses[0] == names.coordinator(job, attempt).partition(":")[0]
    assert max(map(len, addresses)) <= 63


def test_nobody_else_of_a_host_listens_where_the_hosts_meet() -> None:
    ports = {str(names.COORDINATOR_PORT), LIBTPU_PORT, "8471", "8431", "8080"}  # libtpu's, its metrics, between slices
    assert len(ports) == 5


def test_the_largest_slice_of_the_longest_name() -> None:
    assert MOST_HOSTS == 2304 and layout.JOB_NAME.fullmatch(LONGEST)
    addresses = names.host_addresses(LONGEST, 999, 99, MOST_HOSTS)[-MOST_HOSTS:]
    assert max(map(len, addresses)) <= 63
    assert len(f"TPU_WORKER_HOSTNAMES={','.join(addresses)}") < 128 * 1024  # what Linux takes as one variable


def test_what_hosts_run_is_named_by_its_hash() -> None:
    assert names.archive_name(b"a") == names.archive_name(b"a") != names.archive_name(b"b")
    assert names.command("python3", "gs://b/plan.json") == ["python3", "/prefect-tpu/host/host.pyz", "gs://b/plan.json"]
