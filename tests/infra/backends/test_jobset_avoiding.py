"""A pool that lost a host is avoided only while as many slices as the job wants are free elsewhere."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.jobset_avoiding import has_others
from prefect_tpu.infra.backends.jobset_facts import NodeFacts


def pool(name: str, *, hosts: int = 4, is_open: bool = True, is_spot: bool = False) -> list[NodeFacts]:
    return [NodeFacts(name=f"{name}-{host}", pool=name, is_open=is_open, is_spot=is_spot) for host in range(hosts)]


@pytest.mark.parametrize(
    ("nodes", "taken", "slices", "accelerator", "expected"),
    [
        ([*pool("a"), *pool("b")], {}, 1, "v6e-16", True),
        (pool("a"), {}, 1, "v6e-16", False),
        ([*pool("a"), *pool("b")], {"b-0": "job 'x'"}, 1, "v6e-16", False),
        ([*pool("a"), *pool("b", hosts=3)], {}, 1, "v6e-16", False),
        ([*pool("a"), *pool("b", is_open=False)], {}, 1, "v6e-16", False),
        ([*pool("a"), *pool("b", is_spot=True)], {}, 1, "v6e-16", False),
        ([*pool("a"), *pool("b", is_spot=True)], {}, 1, "v6e-16:spot", True),
        ([*pool("a"), *pool("b")], {}, 2, "v6e-16", False),
        ([*pool("a"), *pool("b"), *pool("c")], {}, 2, "v6e-16", True),
        ([*pool("a", hosts=1), *pool("b", hosts=1)], {}, 1, "v6e-8", True),
    ],
)
def test_whether_another_slice_is_free(nodes, taken, slices, accelerator, expected) -> None:
    assert has_others(resolve(accelerator), slices, nodes, taken, ("a",)) is expected
