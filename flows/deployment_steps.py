"""Steps for `prefect.yaml`: what is checked and built before a flow is deployed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import PlatformError, UsageError

BUILDERS = ("docker", "podman", "buildah")
_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
IMAGE = re.compile(rf"(?:[a-z0-9][a-z0-9.-]*(?::\d+)?/)?{_PART}(?:/{_PART})*")  # a colon is a registry's port alone
TAG_CHARACTERS = 12
CACHE = {"buildah": ("--layers",)}  # the others keep layers by themselves; without, the same content is another image


def check_accelerators(accelerators: Sequence[str], slices: int = 1) -> dict[str, list[str]]:
    """Refuse to deploy for slices that there are not.

    Returns:
        `accelerators`, each as it is spelled in full.

    Raises:
        UsageError: a name stands for no slice; the message has the nearest ones.
    """
    found = [resolve(name) for name in accelerators]
    for slice_ in found:
        hosts = slice_.hosts * slices
        typer.echo(f"{slice_.name}: {slice_.chips * slices} chips on {hosts} host{'s' if hosts > 1 else ''}")
    return {"accelerators": [slice_.name for slice_ in found]}


def build_image(
    image: str,
    dockerfile: str = "Dockerfile",
    context: str = ".",
    target: str = "",
    tag: str = "",
    push: bool = False,
    builder: str = "",
) -> dict[str, str]:
    """Build an image, and push it where that is asked for.

    Args:
        image: its name, without a tag.
        dockerfile: what it is built by.
        context: the folder that it is built from.
        target: the stage that is built, by default the last one.
        tag: by default the first digits of the image's own id, which another content changes.
        push: to the registry that its name begins with, with what the builder is logged in as.
        builder: `docker`, `podman` or `buildah`; the first of them that is installed by default.

    Returns:
        `image`, its name with the tag: `{{ built.image }}` in a parameter or job variable that comes after, where this
        step has the id `built`. The id `image` will not do: Prefect lays what a step returns over the ids of steps.

    Raises:
        UsageError: there is no such file or folder, or no builder.
        PlatformError: the builder failed; its own words are above.
    """
    program = _builder(builder)
    if not IMAGE.fullmatch(image):
        raise UsageError(f"Image {image!r} is no name of one: give registry/project/name, without a tag.")
    for path, is_there in ((dockerfile, Path(dockerfile).is_file()), (context, Path(context).is_dir())):
        if not is_there:
            raise UsageError(f"{path} is not there: paths count from the folder where `prefect deploy` runs.")
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder, "id")
        options = (*CACHE.get(program, ()), *(("--target", target) if target else ()))
        _run([program, "build", *options, "--file", dockerfile, "--iidfile", str(note), context])
        built = note.read_text().strip()
    name = f"{image}:{tag or built.removeprefix('sha256:')[:TAG_CHARACTERS]}"
    _run([program, "tag", built, name])
    if push:
        _run([program, "push", name])
    return {"image": name}


def _builder(wanted: str) -> str:
    for name in (wanted,) if wanted else BUILDERS:
        if shutil.which(name):
            return name
    raise UsageError(f"{wanted or ' and '.join(BUILDERS)} is not installed: install one of {', '.join(BUILDERS)}.")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command)
    if done.returncode:
        raise PlatformError(f"`{' '.join(command)}` ended with code {done.returncode}: its own words are above.")
