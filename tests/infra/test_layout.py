"""Names of a job's things: short enough for Kubernetes and Pathways, inside the job's folder, never shared."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import LocalStorage

names = st.from_regex(layout.JOB_NAME, fullmatch=True)


@given(names, st.integers(1, 999))
@settings(max_examples=60)
def test_an_attempts_name_has_at_most_22_characters_and_is_a_dns_label(job: str, attempt: int) -> None:
    name = layout.attempt_name(job, attempt)
    assert len(name) <= 22
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_everything_of_an_attempt_lies_below_it_and_no_two_names_are_equal() -> None:
    storage = LocalStorage("/out/digits")
    found = [
        *(layout.JOB, layout.STOP, layout.LEASE, layout.RESULT, layout.COMPILATION_CACHE),
        *(layout.payload("a" * 64), layout.plan(1), layout.outcome(1), layout.plan(11), layout.outcome(11)),
        *(layout.verdict(1), layout.verdict(11), layout.log_part(1, 1, 1), layout.log_part(1, 1, 11)),
        *(name(1, host) for name in (layout.record, layout.log, layout.result, layout.runner_log) for host in (1, 11)),
        *(layout.checkpoint_seal(1, 11), layout.checkpoint_seal(11, 1), layout.checkpoints(1)),
        *(layout.ledger(1, "host1", 1), layout.ledger(1, "host11", 1), layout.ledger(1, "launcher", 1)),
        *(layout.drill(0), layout.round_end(1)),
    ]
    assert len({storage.path(name) for name in found}) == len(found)
    assert all(name.startswith(f"{layout.ATTEMPTS}/1/hosts/2/") for name in (layout.record(1, 2), layout.log(1, 2)))


def test_a_log_in_one_part_is_a_log() -> None:
    assert layout.log_part(1, 2, 0) == layout.log(1, 2)


def test_staged_data_lies_beside_the_jobs_and_no_job_can_have_its_name() -> None:
    assert layout.JOB_NAME.fullmatch(layout.DATA_FOLDER) is None
    assert layout.data("a" * 64).startswith(layout.DATA_FOLDER + "/")
