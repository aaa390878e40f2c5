"""Which variables of a run are written down, which travel unseen, and which stay with the worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from asked_runs import KEY, configured, worker_settings

from prefect_tpu.flows.work_pool.environment import Environment, environment_of


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with worker_settings():
        yield


def sort(env: dict[str, str | None], *, in_cluster: bool, hidden: tuple[str, ...] = (), **own: object) -> Environment:
    return environment_of(configured(env=env).env, hidden, in_cluster=in_cluster, **own)  # type: ignore[arg-type]


def test_in_a_cluster_secrets_travel_apart_and_the_worker_s_own_stays() -> None:
    found = sort({"WORD": "said"}, in_cluster=True)
    assert found.secret == {"PREFECT_API_KEY": KEY}
    assert found.plain["WORD"] == "said" and found.plain["PREFECT_API_URL"] == "http://server:4200/api"
    assert not {"PREFECT_HOME", "PREFECT_API_KEY"} & found.plain.keys()


def test_on_the_worker_s_machine_its_key_is_there_already() -> None:
    found = sort({}, in_cluster=False)
    assert found.secret == {} and "PREFECT_API_KEY" not in found.plain


@pytest.mark.parametrize("in_cluster", [True, False])
def test_a_key_that_the_run_says_itself_is_carried_and_not_shown(in_cluster: bool) -> None:
    found = sort({"PREFECT_API_KEY": "another"}, in_cluster=in_cluster)
    assert found.secret == {"PREFECT_API_KEY": "another"}


@pytest.mark.parametrize("in_cluster", [True, False])
def test_what_came_from_a_block_is_carried_and_not_shown(in_cluster: bool) -> None:
    found = sort({"TOKEN": "from-a-block"}, in_cluster=in_cluster, hidden=("TOKEN", "GONE"))
    assert found.secret["TOKEN"] == "from-a-block" and "TOKEN" not in found.plain and "GONE" not in found.secret


def test_what_a_run_says_of_a_folder_counts_though_the_worker_has_one() -> None:
    assert sort({"PREFECT_HOME": "/in/the/image"}, in_cluster=True).plain["PREFECT_HOME"] == "/in/the/image"


def test_null_takes_a_variable_away() -> None:
    assert "PREFECT_API_URL" not in sort({"PREFECT_API_URL": None}, in_cluster=True).plain


def test_a_proxy_s_headers_are_as_secret_as_a_key() -> None:
    found = sort({"PREFECT_CLIENT_CUSTOM_HEADERS": '{"Proxy-Authorization": "x"}'}, in_cluster=True)
    assert "PREFECT_CLIENT_CUSTOM_HEADERS" in found.secret


def test_a_secret_of_the_cluster_takes_the_place_of_a_setting() -> None:
    found = sort({}, in_cluster=True, taken=("PREFECT_API_URL", "PREFECT_API_KEY"))
    assert found.secret == {} and "PREFECT_API_URL" not in found.plain
