"""What does the kubeconfig say of a context, and how does its credential plugin stay fresh?"""

from __future__ import annotations

import asyncio
import difflib
import os
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.access import Access
from prefect_tpu.infra.gcp.errors import Unavailable

PLUGIN_SECONDS = 60.0  # for a credential plugin, which may ask the network
_OTHERWISE = "name the cluster as gke://project/location/cluster, which needs no kubeconfig"


def kubeconfig_paths() -> tuple[Path, ...]:
    """The files there are, as `kubectl` would look for them."""
    named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    paths = (Path(part).expanduser() for part in named.split(os.pathsep) if part)
    return tuple(path for path in paths if path.is_file())


def current_context() -> str | None:
    """The name of the context that `kubectl` would use. Raises `UsageError` where a kubeconfig cannot be read."""
    paths = kubeconfig_paths()
    name = _read(paths).value.get("current-context") if paths else None
    return str(name) if name else None


async def reach_context(context: str | None) -> Access:
    """The way to the cluster of a context, by default the current one."""
    paths = kubeconfig_paths()
    if not paths:
        raise UsageError(
            "No cluster is known: there is no kubeconfig, and this process is in no pod."
            f" Set KUBECONFIG, run `gcloud container clusters get-credentials`, or {_OTHERWISE}."
        )
    merged = _read(paths)
    name = _chosen(context, merged.value, paths)
    try:
        loader = _Loader(merged, active_context=name, config_base_path=None)  # type: ignore[no-untyped-call]
        configuration = Configuration()
        await loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, ValueError, OSError) as exc:
        raise UsageError(
            f"Context {name!r} of the kubeconfig cannot be used: {exc}. Mend it, or {_OTHERWISE}."
        ) from exc
    return _access(loader, configuration, name)


def _read(paths: tuple[Path, ...]) -> Any:
    try:
        return KubeConfigMerger(os.pathsep.join(map(str, paths))).config
    except (ConfigException, yaml.YAMLError, OSError, AttributeError, TypeError) as exc:
        files = ", ".join(map(str, paths))
        raise UsageError(f"The kubeconfig {files} cannot be read: {exc}. Mend it, or {_OTHERWISE}.") from exc


def _chosen(context: str | None, config: dict[str, Any], paths: tuple[Path, ...]) -> str:
    known = [entry["name"] for entry in config.get("contexts", [])]
    files = ", ".join(map(str, paths))
    name = context or config.get("current-context")
    if not name:
        raise UsageError(
            f"No cluster is named, and {files} has no current context: name one of {', '.join(known) or 'none'}, or run"
            " `kubectl config use-context`."
        )
    if name not in known:
        near = difflib.get_close_matches(name, known, 3) or known
        raise UsageError(f"{files} has no context {name!r}: give one of {', '.join(near) or 'none'}, or {_OTHERWISE}.")
    return str(name)


def _access(loader: _Loader, configuration: Configuration, name: str) -> Access:
    async def take() -> None:
        try:
            await loader.load_from_exec_plugin()
        except (ConfigException, OSError) as exc:  # it has worked before: most often the network is away
            raise Unavailable(
                f"Cluster {name!r} cannot be asked: {exc}. Log in again, or {_OTHERWISE}.", is_unprocessed=True
            ) from exc
        configuration.api_key["BearerToken"] = loader.token

    async def refresh(_: Configuration) -> None:
        if loader.has_expiry:  # without, the plugin would be run for every request
            await take()

    async def renew() -> bool:
        if not loader.has_plugin or "BearerToken" not in configuration.api_key:
            return False
        loader.forget_expiry()
        await take()
        return True

    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # the library infers None
    namespace = loader.current_context["context"].get("namespace") or "default"
    return Access(configuration=configuration, cluster=repr(name), namespace=namespace, renew=renew)


class _Loader(KubeConfigLoader):
    """The library's loader, which logs why a credential plugin failed and goes on without: here that is an error."""

    token: str

    @property
    def has_plugin(self) -> bool:
        return self._user is not None and "exec" in self._user

    @property
    def has_expiry(self) -> bool:
        return hasattr(self, "exec_plugin_expiry")

    def forget_expiry(self) -> None:
        if self.has_expiry:
            del self.exec_plugin_expiry

    async def load_from_exec_plugin(self) -> Any:
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                loaded = await super().load_from_exec_plugin()  # type: ignore[no-untyped-call]
                if not loaded:
                    await self._say_why()
        except TimeoutError as exc:
            raise ConfigException(f"its credential plugin did not answer within {PLUGIN_SECONDS:g} s") from exc
        return loaded

    async def _say_why(self) -> None:
        plugin: Any = self._user["exec"] if self._user is not None else {}
        command = plugin.safe_get("command")
        try:
            await ExecProvider(plugin).run()
        except FileNotFoundError as exc:
            raise ConfigException(f"its credential plugin {command!r} is not installed") from exc
        raise ConfigException(f"its credential plugin {command!r} gave no usable credentials")
