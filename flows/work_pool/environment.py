"""Which variables does a run's flow start with, and which of them may nobody read? Prefect's own words, sorted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prefect.settings import Settings, get_current_settings

# No setting of type secret, and yet what a proxy is let in by.
_SECRET = frozenset({"PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_CLIENT_CUSTOM_HEADERS"})
# Folders and files of the worker's machine, and what is only for servers, workers and terminals.
_OF_THIS_MACHINE = frozenset(
    {
        "PREFECT_HOME",
        "PREFECT_PROFILES_PATH",
        "PREFECT_LOCAL_STORAGE_PATH",
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH",
        "PREFECT_MEMO_STORE_PATH",
        "PREFECT_LOGGING_CONFIG_PATH",
        "PREFECT_LOGGING_SETTINGS_PATH",
        "PREFECT_TEST_MODE",
        "PREFECT_DEBUG_MODE",
    }
)
_OF_OTHERS = (
    "PREFECT_SERVER_",
    "PREFECT_WORKER_",
    "PREFECT_RUNNER_",
    "PREFECT_TESTING_",
    "PREFECT_CLI_",
    "PREFECT_UI_",
)
_OF_THE_WORKER = frozenset({"PREFECT__WORKER_ID", "PREFECT__WORKER_NAME"})  # another one may go on with the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Variables of a flow: those that are written down with its job, and those that are not."""

    plain: dict[str, str]
    secret: dict[str, str]


def environment_of(
    env: Mapping[str, str | None], hidden: Iterable[str], *, in_cluster: bool, taken: Iterable[str] = ()
) -> Environment:
    """Sort them.

    Args:
        env: as Prefect made it, with the worker's own settings below what was said of the run.
        hidden: names whose values came from blocks.
        in_cluster: whether the flow runs elsewhere. On the worker's machine it has the worker's own settings already,
            so that the secret ones need not travel.
        taken: names that come from secrets of the cluster; they count more than the worker's settings.
    """
    said = {name: value for name, value in env.items() if value is not None and name not in _OF_THE_WORKER}
    own = worker_settings()
    inherited = {name for name, value in own.values.items() if said.get(name) == value}
    dropped = inherited & frozenset(taken)
    dropped |= {name for name in inherited if _is_of_this_machine(name)} if in_cluster else inherited & own.secret
    secret = (frozenset(hidden) | own.secret) & said.keys() - dropped
    return Environment(
        plain={name: value for name, value in said.items() if name not in secret | dropped},
        secret={name: said[name] for name in sorted(secret)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings of Prefect that somebody set in this process, as variables; and which of them it keeps covered."""

    values: dict[str, str]
    secret: frozenset[str]


_found: dict[int, tuple[Settings, WorkerSettings]] = {}  # of the newest settings: reading them takes Prefect 50 ms


def worker_settings() -> WorkerSettings:
    """Those in force now."""
    settings = get_current_settings()
    if (known := _found.get(id(settings))) is not None and known[0] is settings:
        return known[1]
    values = settings.to_environment_variables(exclude_unset=True)
    covered = settings.to_environment_variables(exclude_unset=True, include_secrets=False)
    secret = frozenset(name for name, value in values.items() if covered.get(name) != value)
    _found.clear()
    _found[id(settings)] = settings, WorkerSettings(values=values, secret=_SECRET | secret)
    return _found[id(settings)][1]


def _is_of_this_machine(name: str) -> bool:
    return name in _OF_THIS_MACHINE or name.startswith(_OF_OTHERS)
