"""The doctor says what it found and what to do, never hangs, never tells a secret, and leaves nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.flows.shell import machine_checks, prefect_checks
from prefect_tpu.flows.shell.about import DoctorOptions
from prefect_tpu.flows.shell.checks import is_looking, look_at_all
from prefect_tpu.flows.shell.doctor import shown
from prefect_tpu.infra.checks import Check, Verdict, at_least, fail, ok


def test_checks_answer_in_their_order_and_none_holds_up_the_others() -> None:
    never = threading.Event()
    looks = {
        "slow": lambda: ok("slow", str(never.wait())),
        "broken": lambda: ok("broken", str(1 / 0)),
        "good": lambda: ok("good", "fine"),
    }
    found = look_at_all(looks, patience=0.3)
    assert [(check.name, check.verdict) for check in found] == [("slow", "warn"), ("broken", "warn"), ("good", "ok")]
    assert "did not answer within" in found[0].found and "division by zero" in found[1].found
    assert is_looking()
    never.set()


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "fail"), (2.0, "warn"), (3.9, "warn"), (4.0, "ok")])
def test_a_number_that_should_be_large(value: float, verdict: str) -> None:
    assert at_least("x", "x", value, warns_below=4.0, fails_below=2.0, advice="more").verdict == verdict


def test_every_line_has_its_verdict_and_its_advice_below() -> None:
    said = shown([ok("python", "3.11"), fail("memory", "none", "Buy some.")]).splitlines()
    assert said == ["ok    python  3.11", "fail  memory  none", "              → Buy some."]


@pytest.mark.parametrize(
    ("requirement", "installed", "says"),
    [
        ("jax>=0.10", "0.10.2", None),
        ("jax>=0.10", "0.9.9", "jax 0.9.9 is older than 0.10"),
        ("orbax-checkpoint>=0.12", None, "orbax-checkpoint is not installed"),
        ("prefect>=3.8.1", "3.10.0+local", None),
        ("numpy", "1", None),
    ],
)
def test_packages_that_are_too_old(requirement: str, installed: str | None, says: str | None) -> None:
    assert machine_checks.too_old(requirement, lambda name: installed) == says


def test_the_output_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    assert machine_checks.writable(str(tmp_path / "new/jobs")).verdict is Verdict.OK
    assert list(tmp_path.iterdir()) == []
    assert machine_checks.writable("/proc/jobs").verdict is Verdict.FAIL


@pytest.mark.parametrize("check", [machine_checks.python, machine_checks.packages, machine_checks.cpus])
def test_what_runs_these_tests_is_fit(check: Callable[[], Check]) -> None:
    assert check().verdict is not Verdict.FAIL


@pytest.mark.parametrize(
    ("url", "shown_as"),
    [
        ("https://user:hush@prefect.example:4200/api?token=hush#x", "https://prefect.example:4200/api"),
        ("http://127.0.0.1:4200/api", "http://127.0.0.1:4200/api"),
    ],
)
def test_no_url_tells_a_secret(url: str, shown_as: str) -> None:
    assert prefect_checks.without_secrets(url) == shown_as


class Server(BaseHTTPRequestHandler):
    """Answers as a Prefect server does: its version, its work pools; `status` in the path refuses everything."""

    def do_GET(self) -> None:
        self._answer(b'"3.9.1"')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b'[{"name": "tpu"}]')

    def _answer(self, body: bytes) -> None:
        refuses = self.path.split("/")[1]
        self.send_response(int(refuses) if refuses.isdecimal() else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Server) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.mark.parametrize(
    ("path", "verdict", "says"),
    [
        ("/api", "ok", "version 3.9.1, work pools tpu"),
        ("/401/api", "fail", "refuses the key (401)"),
        ("/404/api", "fail", "answers 404"),
    ],
)
def test_a_server_is_asked(server: str, path: str, verdict: str, says: str) -> None:
    found = prefect_checks.ask(f"{server}{path}", {})
    assert found.verdict == verdict and says in found.found


def test_a_server_that_is_not_there() -> None:
    found = prefect_checks.ask("http://u:hush@127.0.0.1:9/api", {})
    assert found.verdict is Verdict.FAIL and "cannot be reached (ConnectError)" in found.found
    assert "hush" not in f"{found}"


def test_what_jobs_would_say_of_their_pools_is_said_of_a_cluster(shell: Callable[..., Any]) -> None:
    asked = DoctorOptions(zone="us-east5-b", make_pools=True, pull_secret=["ours"])
    assert asked.pods == {"zones": ("us-east5-b",), "make_pools": True, "pull_secrets": ("ours",)}
    assert asked.means_cluster and not DoctorOptions().means_cluster
    ended = shell("doctor", "-a", "v6e-16", "--zone", "us-east5")
    assert ended.status == 2 and "'us-east5'" in ended.err
