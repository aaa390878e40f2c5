"""What would be sent is shown whole and read by machines; nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.render import lines, written_plan
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.preview import preview
from prefect_tpu.infra.request import Request
from tests.infra.gcp.golden_plans import GOLDEN, objects

Shell = Callable[..., Any]


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("import beside\ndef main(steps=1, note=''): ...\n")
    (tmp_path / "beside.py").write_text("WORD = 1\n")
    (tmp_path / "table.csv").write_text("1,2\n")
    return f"{tmp_path / 'train.py'}:main"


def test_a_new_job(shell: Shell, program: str, output: Path, tmp_path: Path) -> None:
    words = ["-a", "cpu-2x1", "--name", "new", "-p", "steps=5", "--data", f"{tmp_path}/table.csv", "--grace", "5s"]
    told = shell("render", program, *words, "-e", "A=b", "-e", "MY_TOKEN=hush", "--json").json
    assert told["what"] == "Attempt 1 would begin on cpu-2x1, at the beginning."
    assert set(told["payload"]["files"]) == {"train.py", "beside.py"}
    assert told["data"]["table"]["from"] == f"{tmp_path}/table.csv" and len(told["data"]["table"]["sha256"]) == 64
    assert (told["plan"]["grace"], told["plan"]["hosts"], told["plan"]["restore"]) == (5.0, 2, None)
    assert told["plan"]["env"]["A"] == "b" and told["plan"]["env"]["MY_TOKEN"] == "(hidden)"
    assert [host["command"][-1] for host in told["hosts"]] == ["0", "1"]
    assert not output.exists()


def test_people_read_the_same(shell: Shell, program: str, output: Path) -> None:
    said = shell("render", program, "--name", "new", "-p", "note=a: b", "-p", "steps=5", "-e", "KEY=hush").lines
    assert said[0] == "job: new" and "what: Attempt 1 would begin on cpu, at the beginning." in said
    assert "    steps: 5" in said and '    note: "a: b"' in said and "    KEY: (hidden)" not in said
    assert any(line.startswith("  - host: 0") for line in said) and any(
        "-m prefect_tpu.infra.host" in line for line in said
    )
    assert "hush" not in "\n".join(said) and not output.exists()


def test_what_is_not_to_be_had_says_why(shell: Shell, program: str) -> None:
    told = shell("render", program, "-a", "v6e-256", "-a", "cpu", "--json").json
    assert "64 hosts needed" in told["refused"]["v6e-256"] and told["plan"]["accelerator"] == "cpu"
    assert shell("render", program, "-a", "v6e-256", "--json").json["what"].startswith("Nothing would start")


POOLS = ("--make-pools", "--image", "python:3.12", "--cluster", "gke://p/us-east5-a/c", "--output", "file:///shared")


@pytest.mark.parametrize("words", [("-a", "v6e-256"), ("-a", "cpu-2x1", *POOLS), ("-a", "v6e-16:reserved", *POOLS)])
def test_where_nothing_would_start_it_ends_as_run_would_and_says_why(
    shell: Shell, program: str, words: tuple[str, ...]
) -> None:
    found = shell("render", program, *words)
    (why,) = yaml.safe_load("\n".join(found.lines))["refused"].values()
    assert found.status == ExitStatus.FAILED and found.err.startswith("prefect-tpu: Nothing would start: ")
    assert why.rstrip(".") in found.err
    told = shell("render", program, *words, "--json")
    assert told.status == ExitStatus.FAILED and told.json["refused"]


def test_what_stands_in_for_gpus_is_said(shell: Shell, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    told = shell("render", program, "-a", "l4x2", "--json").json
    said = "No GPU is to be seen on this machine: CPU devices stand in for l4x2."
    assert told["what"] == f"Attempt 1 would begin on l4x2, at the beginning. {said}"
    assert (told["plan"]["platform"], told["plan"]["stand_in"]) == ("cpu", said)
    assert shell("render", program, "-a", "cpu", "--json").json["plan"]["stand_in"] == ""


def test_what_run_would_refuse_render_refuses(shell: Shell, program: str, output: Path) -> None:
    for words, says in (
        ((program.replace("main", "mian"),), "has no function 'mian'"),
        ((program, "-p", "step=5"), "step"),
        ((program, "-a", "v6e-17"), "v6e-17"),
        ((program, "--drill", "preempt@step=1,host=9"), "strikes no host"),
    ):
        ended = shell("render", *words)
        assert ended.status == 2 and says in ended.err and len(ended.err.splitlines()) == 1
    assert not output.exists()


def test_a_job_that_is_there(shell: Shell, jobs: Any) -> None:
    words = ("sh", "-a", "v6e-16", "--name", "old", "--json", "--", "-c", "true")
    jobs.asked("old", program=Program(kind="command", target="sh", arguments=("-c", "true")))
    jobs.planned("old", 1)
    assert shell("render", *words).json["what"].startswith("Attempt 1 was sent already")
    jobs.attempt_ended("old", 1, FailureKind.PREEMPTED)
    assert shell("render", *words).json["what"] == "Attempt 2 would begin on v6e-16, at the beginning."
    jobs.planned("old", 2)
    jobs.attempt_ended("old", 2)
    jobs.ended("old")
    assert shell("render", *words).json["what"].startswith("The job has succeeded: its result would be returned")
    before = sorted(jobs.storage("old").root.rglob("*"))
    jobs.storage("old").delete(layout.RESULT)
    assert shell("render", "sh", "--name", "old", "--", "-c", "false").status == 2
    assert sorted(jobs.storage("old").root.rglob("*")) == [path for path in before if path.name != layout.RESULT]


texts = st.text(max_size=9) | st.text("-:#.,[]{}&*!|>'\"%@`?~= \t\nTe0123x_", max_size=9)
scalars = texts | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
facts = st.recursive(
    scalars | st.lists(scalars, max_size=3),
    lambda inner: st.dictionaries(texts, inner, max_size=3) | st.lists(st.dictionaries(texts, inner, max_size=3)),
    max_leaves=9,
)


@given(st.dictionaries(texts, facts, max_size=4))
@example(
    {"a": ["12", "1.5e3", "0x1F", "1_0", "1:30", ".inf", "2001-1-14T2:59:43", "2001-01-14 02:59:43", "yes", "n", ""]}
)
@example({"b": ["v6e-16:spot", "/out/a b", "a: b", "a #b", "- a", "...", "é", "\x85\u2028\x7f", "64 hosts", "~"]})
@example({"c": {"yes": "on", "a: b": 1e-05, "1": [1e22, {"x": 1e22}], "d": [{}, {"x": []}], "": [[]]}})
def test_people_read_what_machines_read(told: dict[str, Any]) -> None:
    assert yaml.safe_load("\n".join(lines(told)) or "{}") == told
    for item in (part for value in told.values() if isinstance(value, list) for part in value):
        assert yaml.safe_load("\n".join(lines({"x": item}))) == {"x": item}


def test_text_stays_bare_where_it_can() -> None:
    told = {"a": "v6e-16:spot", "b": "/out/a b", "c": "64 hosts", "d": (), "e": ("x",)}
    assert [*lines(told)] == [
        "a: v6e-16:spot",
        "b: /out/a b",
        "c: 64 hosts",
        "d: []",
        'e: ["x"]',
    ]


BUCKET = ("--output", "file:///shared/jobs")


def test_objects_of_a_cluster_are_documents_that_kubectl_takes(shell: Shell, program: str) -> None:
    words = (program, "-a", "v6e-16:spot", "--name", "new", "--image", "python:3.12", "--slices", "2", *BUCKET)
    said = shell(
        "render", *words, "-e", "MY_KEY=hush", "--secret", "TOKEN=hub/token", "--volume", "/data=gs://bucket/a"
    )
    config_map, jobset = yaml.safe_load_all("\n".join(said.lines))
    assert (config_map["kind"], jobset["kind"], jobset["metadata"]["name"]) == ("ConfigMap", "JobSet", "new-1")
    (replicated,) = jobset["spec"]["replicatedJobs"]
    pod = replicated["template"]["spec"]["template"]["spec"]
    assert (replicated["replicas"], replicated["template"]["spec"]["completions"]) == (2, 4)
    assert pod["containers"][0]["image"] == "python:3.12"
    assert pod["containers"][0]["command"][-1].endswith("/new/attempts/1/plan.json")
    assert "# what: Attempt 1 would begin on v6e-16:spot, at the beginning." in said.lines
    assert "hush" not in said.out and "TOKEN" in said.out


def test_node_pools_that_would_be_made_are_shown(shell: Shell, program: str) -> None:
    place = ("--cluster", "gke://p/us-east5-b/a", "--pod", "make_pools=true")
    words = (program, "-a", "v6e-16:spot", "--name", "new", "--image", "python:3.12", *place, *BUCKET)
    told = shell("render", *words, "--json").json
    (pool,) = told["pools"]
    assert told["plan"]["pools"] == [pool["name"]]
    assert (pool["config"]["machineType"], pool["initialNodeCount"]) == ("ct6e-standard-4t", 4)
    pod = told["objects"][-1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["cloud.google.com/gke-nodepool"] == pool["name"]
    lines = shell("render", *words).lines
    assert "# pools:" in lines and "#     initialNodeCount: 4" in lines
    assert len(list(yaml.safe_load_all("\n".join(lines)))) == 2  # the pool is none that kubectl takes


def test_the_first_of_several_offers_is_shown_and_all_are_listed(shell: Shell, program: str) -> None:
    places = ("--cluster", "gke://p/us-east5/a", "--cluster", "gke://p/us-central1/b", "--zone", "us-east5-b")
    zones = ("--zone", "us-east5-a", "--zone", "us-central1-a")
    words = (program, "-a", "v6e-16", "--name", "new", "--image", "python:3.12", *places, *zones, *BUCKET)
    told = shell("render", *words, "--json").json
    assert told["offers"] == [
        "v6e-16 in us-east5-b of gke://p/us-east5/a",
        "v6e-16 in us-east5-a of gke://p/us-east5/a",
        "v6e-16 in us-central1-a of gke://p/us-central1/b",
    ]
    assert told["what"].startswith("Attempt 1 would begin on v6e-16 in us-east5-b of gke://p/us-east5/a, at the")
    assert (told["plan"]["cluster"], told["plan"]["zone"]) == ("gke://p/us-east5/a", "us-east5-b")
    pod = told["objects"][-1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["topology.kubernetes.io/zone"] == "us-east5-b"


def test_a_bucket_that_cannot_be_seen_is_no_reason_to_show_nothing(
    shell: Shell, program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where nobody has logged in to Google."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "no-such-key.json"))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    words = (program, "-a", "v6e-16", "--name", "new", "--image", "python:3.12", "--output", "gs://nobodys/jobs")
    told = shell("render", *words, "--data", f"{tmp_path}/table.csv", "--json").json
    assert told["what"].startswith(
        "Attempt 1 would begin on v6e-16, at the beginning. This is a guess, for a job whose"
    )
    assert "no-such-key.json" in told["what"]
    jobset = told["objects"][-1]
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"][-1] == "gs://nobodys/jobs/new/attempts/1/plan.json"
    assert len(told["data"]["table"]["sha256"]) == 64


def test_a_terminal_is_spared_what_only_machines_read(program: str) -> None:
    request = Request(
        name="new",
        program=program,
        accelerators=("v6e-16",),
        output="file:///shared/jobs",
        settings={"backend": "jobset", "pods": PodSettings(image="i:1")},
    )
    shown = written_plan(preview(request), request, as_json=False, is_for_eyes=True)
    assert len(shown) < 20_000 and "characters, written out in a file or pipe" in shown
    assert [one["kind"] for one in yaml.safe_load_all(shown)] == ["ConfigMap", "JobSet"]


def test_scripts_get_the_same_objects(shell: Shell, program: str) -> None:
    words = ("render", program, "-a", "v6e-16", "--name", "new", "--image", "python:3.12", *BUCKET)
    told = shell(*words, "--json").json
    assert told["objects"] == [*yaml.safe_load_all("\n".join(shell(*words).lines))]
    assert (told["plan"]["backend"], told["plan"]["hosts"]) == ("jobset", 4) and "hosts" not in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--backend", "jobset"),
            "need an image: name one that has Python and the program's packages (image=…, --image)",
        ),
        (("--cluster", "trainer"), "need an image"),
        (("--image", "python", "--backend", "local"), "The local backend has no pods, and image was given"),
        (("--image", "python", "--backend", "pathway"), "Backend 'pathway' is not known: choose 'local', 'jobset' or"),
        (
            ("--image", "python", "--cluster", "gke://p/us-east5/a", "--zone", "us-east1-b"),
            "Zone 'us-east1-b' is not in us-east5, where the job's clusters are",
        ),
        (("--image", "python", "--cluster", "here", "--make-pools"), "cluster 'here' is not known to be Google's"),
        (("--backend", "local", "--make-pools"), "The local backend has no pods, and make_pools was given"),
        (("--image", "python", "--pod", "memory=much"), "memory is 'much': give a Kubernetes quantity"),
        (("--image", "python", "-a", "v2-8"), "GKE has no nodes of v2-8"),
        (("--image", "python", "-a", "v6e-16:queue"), "waits in a queue, and none is named"),
        (("--image", "python", "--slices", "0"), "--slices"),
    ],
)
def test_what_a_cluster_cannot_be_asked_is_refused(
    shell: Shell, program: str, words: tuple[str, ...], says: str
) -> None:
    ended = shell("render", program, *words, *BUCKET)
    assert ended.status == 2 and says in " ".join(ended.err.split())


@pytest.mark.parametrize("name", GOLDEN)
def test_every_golden_object_reads_as_it_is(name: str) -> None:
    for item in objects(GOLDEN[name]):
        assert yaml.safe_load("\n".join(lines(item))) == item
