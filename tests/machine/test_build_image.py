"""`build_image` with a real builder and a real registry: what was built is there, by the name that a deployment has."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect_server import running, running_server, wait_for

from prefect_tpu.flows.deployment_steps import build_image
from prefect_tpu.infra.errors import PlatformError

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]

BUILDER = "buildah"
REPOSITORY = "team/flow"
MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
DEPLOYMENTS = """
build:
  - prefect_tpu.flows.deployment_steps.check_accelerators:
      accelerators: [v6e-16]
  - prefect_tpu.flows.deployment_steps.build_image:
      id: built
      image: REGISTRY/team/flow
      builder: buildah
      push: true
deployments:
  - name: built
    entrypoint: prefect_tpu.flows.train:train
    parameters: {program: "train.py:main", image: "{{ built.image }}"}
    work_pool: {name: tpu, job_variables: {accelerator: cpu, image: "{{ built.image }}"}}
"""


@dataclass(frozen=True, slots=True)
class Registry:
    """Of images, on the loopback."""

    place: str

    def tags(self) -> list[str]:
        found: list[str] = httpx.get(f"http://{self.place}/v2/{REPOSITORY}/tags/list").json().get("tags", [])
        return found

    def image_id(self, tag: str) -> str:
        """What an image is called by its content."""
        asked = f"http://{self.place}/v2/{REPOSITORY}/manifests/{tag}"
        found: str = httpx.get(asked, headers={"Accept": MANIFESTS}).raise_for_status().json()["config"]["digest"]
        return found


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": place},
    }
    (tmp_path / "registry.yaml").write_text(json.dumps(settings))  # JSON is YAML
    command = ["docker-registry", "serve", str(tmp_path / "registry.yaml")]
    with running(command, os.environ, tmp_path, "registry") as process:
        wait_for(lambda: _answers(place) or process.poll() is not None, "the registry")
        assert process.poll() is None, (tmp_path / "registry.log").read_text()
        yield Registry(place)


def _answers(place: str) -> bool:
    try:
        return httpx.get(f"http://{place}/v2/").is_success
    except httpx.HTTPError:
        return False


@pytest.fixture
def context(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where `prefect deploy` runs, with a Dockerfile; and a builder that keeps to the test's folder.

    That the registry has no certificate is told to the builder alone, where everybody tells it.
    """
    kept = tmp_path / "containers"
    told = {
        "registries.conf": f'[[registry]]\nlocation = "{registry.place}"\ninsecure = true\n',
        "storage.conf": f'[storage]\ndriver = "vfs"\ngraphroot = "{kept}/graph"\nrunroot = "{kept}/run"\n',
        "policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}',
    }
    settings = tmp_path / "home" / ".config" / "containers"
    settings.mkdir(parents=True)
    for name, text in told.items():
        (settings / name).write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(settings / "registries.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(settings / "storage.conf"))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY greeting /greeting\n")
    (folder / "greeting").write_text("hello")
    monkeypatch.chdir(folder)
    return folder


def test_an_image_is_in_the_registry_and_its_tag_says_which_one_it_is(registry: Registry, context: Path) -> None:
    made = build_image(f"{registry.place}/{REPOSITORY}", push=True, builder=BUILDER)["image"]
    name, _, tag = made.rpartition(":")
    assert name == f"{registry.place}/{REPOSITORY}" and registry.tags() == [tag]
    assert registry.image_id(tag).removeprefix("sha256:").startswith(tag)

    assert build_image(f"{registry.place}/{REPOSITORY}", builder=BUILDER)["image"] == made  # as for the next deployment

    (context / "greeting").write_text("good day")
    other = build_image(f"{registry.place}/{REPOSITORY}", push=True, builder=BUILDER)["image"].rpartition(":")[2]
    assert other != tag and set(registry.tags()) == {tag, other}


def test_without_a_push_nothing_is_sent_and_a_tag_may_be_said(registry: Registry, context: Path) -> None:
    assert build_image(f"{registry.place}/{REPOSITORY}", tag="v1", builder=BUILDER)["image"].endswith("/flow:v1")
    assert registry.tags() == []
    build_image(f"{registry.place}/{REPOSITORY}", tag="v1", push=True, builder=BUILDER)
    assert registry.tags() == ["v1"]


def test_what_the_builder_refuses_ends_the_deployment(
    registry: Registry, context: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (context / "Dockerfile").write_text("FROM scratch\nCOPY no-such-file /greeting\n")
    with pytest.raises(PlatformError, match="`buildah build .*` ended with code"):
        build_image(f"{registry.place}/{REPOSITORY}", push=True, builder=BUILDER)
    assert "no-such-file" in capfd.readouterr().err and registry.tags() == []


def test_deployed_flows_have_the_image_that_was_just_pushed(
    registry: Registry, context: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (context / "prefect.yaml").write_text(DEPLOYMENTS.replace("REGISTRY", registry.place))
    with running_server(tmp_path_factory.mktemp("server")) as server:
        server.command("work-pool", "create", "tpu", "--type", "tpu-slice")
        told = server.command("deploy", "--all", folder=context)
        deployment: dict[str, Any] = server.ask("/deployments/name/train/built")
    (tag,) = registry.tags()
    image = f"{registry.place}/{REPOSITORY}:{tag}"
    assert "v6e-16: 16 chips on 4 hosts" in told
    assert deployment["job_variables"] == {"accelerator": "cpu", "image": image}
    assert deployment["parameters"]["image"] == image
