"""Settings of Pathways: which images fit which JAX, and what it could not be started with is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pathways import REGISTRY, TAGS, PathwaysSettings, pathways_settings
from prefect_tpu.infra.pods import PodSettings, in_pods

TEXTS = {
    "jax": "0.10.2",
    "scratch": "gs://bucket/a/b",
    "head_pool": "cpu-np",
    "elastic_slices": "2",
    "slice_restarts": "7",
    "host_network": "True",
    "proxy_memory": "200G",
    "worker_flags": "--a=1,--b",
    "version": "",
}
READ = PathwaysSettings(
    jax="0.10.2",
    scratch="gs://bucket/a/b",
    head_pool="cpu-np",
    elastic_slices=2,
    slice_restarts=7,
    host_network=True,
    proxy_memory="200G",
    worker_flags=("--a=1", "--b"),
)


@pytest.mark.parametrize("jax", TAGS)
def test_the_images_are_those_made_for_the_job_s_jax(jax: str) -> None:
    images = PathwaysSettings(jax=jax).images()
    tag = images.server.rpartition(":")[2]
    assert tag.endswith(f"-jax_{jax}")  # how Google's tags say it
    assert (images.server, images.proxy) == (f"{REGISTRY}/server:{tag}", f"{REGISTRY}/proxy_server:{tag}")


def test_a_tag_or_whole_images_may_be_named_instead() -> None:
    named = PathwaysSettings(jax="0.9.0", version="20261002-jax_0.11.0").images()
    assert named.proxy == f"{REGISTRY}/proxy_server:20261002-jax_0.11.0"
    mixed = PathwaysSettings(version="v", server_image="mirror/server:1").images()
    assert (mixed.server, mixed.proxy) == ("mirror/server:1", f"{REGISTRY}/proxy_server:v")
    whole = PathwaysSettings(server_image="a:1", proxy_image="b:1").images()
    assert (whole.server, whole.proxy) == ("a:1", "b:1")


def test_where_nobody_says_which_jax_they_must_fit_it_is_said_what_to_name() -> None:
    newest = list(TAGS)[-1]
    with pytest.raises(UsageError, match=rf"pathways\.jax={newest}\).*pathways\.version={TAGS[newest]}"):
        PathwaysSettings().images()
    with pytest.raises(UsageError, match=r"fit JAX 0\.11\.0 is not known here \(known: 0\.9\.0, .*-jax_0\.11\.0"):
        PathwaysSettings(jax="0.11.0").images()
    with pytest.raises(UsageError, match="name that of the job's image"):
        PathwaysSettings(server_image="a:1").images()


def test_everything_may_be_said_in_texts_and_is_kept_as_json() -> None:
    assert pathways_settings(TEXTS) == READ == pathways_settings(READ)
    assert PathwaysSettings.from_json(json.loads(json.dumps(asdict(READ)))) == READ
    pods = PodSettings(image="i", pathways=READ)
    assert PodSettings.from_json(json.loads(json.dumps(asdict(pods)))) == pods


def test_whoever_says_anything_of_pathways_wants_that_backend(make_job: Any) -> None:
    found = in_pods(None, {"image": "i", "pathways": TEXTS})
    assert found == {"backend": "pathways", "pods": PodSettings(image="i", pathways=READ)}
    job = make_job(**found)
    assert SliceJob.from_json(job.to_json()) == job
    assert in_pods(None, {"image": "i", "pathways": {}})["backend"] == "jobset"
    with pytest.raises(UsageError, match=r"Backend 'jobset' knows nothing of Pathways"):
        make_job(**in_pods("jobset", {"image": "i", "pathways": TEXTS}))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"jx": "1"}, r"Pathways has no setting 'jx'\. Did you mean 'jax'\?"),
        ({"zzz": "1"}, "It has: jax, version"),
        ({"jax": "0 10"}, "pathways.jax is '0 10'"),
        ({"scratch": "s3://bucket"}, "name a folder of a bucket"),
        ({"scratch": "gs://"}, "name a folder of a bucket"),
        ({"scratch": "gs://x/y"}, "'x' is no bucket: a bucket's name has 3 to 222 of a-z"),
        ({"scratch": "gs://Bucket"}, "'Bucket' is no bucket"),
        ({"scratch": "gs://bucket/a b"}, "the folder 'a b' has a space or a comma"),
        ({"head_pool": "Cpu"}, "pathways.head_pool is 'Cpu'"),
        ({"elastic_slices": "some"}, "pathways.elastic_slices is 'some': give a whole number"),
        ({"slice_restarts": -1}, "pathways.slice_restarts is -1"),
        ({"host_network": "yes"}, "pathways.host_network is 'yes': give true or false"),
        ({"proxy_cpu": "many"}, "pathways.proxy_cpu is 'many'"),
        ({"worker_flags": "premapped"}, "pathways.worker_flags has 'premapped', which is no flag"),
        ({"colocated_python": "a b"}, "pathways.colocated_python is 'a b': name an image"),
        ({"server_image": 5}, "pathways.server_image is 5: name an image"),
    ],
)
def test_what_it_could_not_be_started_with_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        pathways_settings(wrong)


def test_settings_that_are_no_group_are_refused() -> None:
    with pytest.raises(UsageError, match="pathways is 'jax': give its settings by name"):
        in_pods(None, {"image": "i", "pathways": "jax"})
