"""What Optuna knows lies in the sweep's folder: any process finds it again, whoever was killed while writing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import LocalStorage, Storage
from prefect_tpu.infra.sweep.asked import Asked
from prefect_tpu.infra.sweep.journal import Journal
from prefect_tpu.infra.sweep.study import Study, Trial, TrialState, best

ASK_ON = """
import json, sys
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.asked import Asked
from prefect_tpu.infra.sweep.study import Study
study = Study(LocalStorage(sys.argv[1]), Asked(**json.loads(sys.argv[2])))
print("ready", flush=True)
while True:
    study.report(study.ask().number, [(1, 0.5)])
"""
APPEND = """
import sys
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.journal import Journal
journal = Journal(LocalStorage(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for index in range(30):
    journal.append_logs([{"writer": sys.argv[2], "index": index}])
"""
STEPS_OF_A_TRIAL = (1, 2, 4, 8, 16)
STEPS = st.lists(
    st.one_of(
        st.just(("ask",)),
        st.tuples(st.just("report"), st.integers(0, 5), st.integers(1, 20), st.floats(-10, 10)),
        st.tuples(st.just("tell"), st.integers(0, 5), st.sampled_from(list(TrialState)[1:]), st.floats(-10, 10)),
    ),
    max_size=20,
)


def test_a_trial_is_asked_told_and_found_again(make_asked: Callable[..., Asked], anywhere: Storage) -> None:
    asked = make_asked(first=({"params": {"width": 128}},))
    study = Study(anywhere, asked)
    first, second = study.ask(), study.ask()
    assert first.params["width"] == 128 and 1e-4 <= first.params["lr"] <= 1e-1
    assert set(second.params) == {"lr", "width"} and second.number == 1
    assert study.report(0, [(3, 0.25)]) is None
    study.tell(0, TrialState.COMPLETE, 0.125)
    study.tell(0, TrialState.FAILED)  # told once
    study.report(1, [(2, 0.5), (5, 0.75)])
    study.tell(1, TrialState.PRUNED)
    seen = Study(anywhere, asked).trials()
    assert seen == study.trials()
    assert [(trial.state, trial.value, trial.last_step) for trial in seen] == [
        (TrialState.COMPLETE, 0.125, 3),
        (TrialState.PRUNED, 0.75, 5),
    ]


@given(STEPS)
def test_whatever_was_asked_and_told_another_process_sees_the_same(
    tmp_path_factory: pytest.TempPathFactory, make_asked: Callable[..., Asked], steps: list[tuple[object, ...]]
) -> None:
    asked, storage = make_asked(pruner="halving"), LocalStorage(tmp_path_factory.mktemp("study"))
    study = Study(storage, asked)
    for step in steps:
        play(study, step)
    other = Study(storage, asked)
    assert other.trials() == study.trials()
    assert other.ask() == study.trials()[-1]


def play(study: Study, step: tuple[object, ...]) -> None:
    open_ = [trial.number for trial in study.trials() if trial.state is TrialState.OPEN]
    match step:
        case ("ask",):
            study.ask()
        case ("report", int(number), int(after), float(value)) if number in open_:
            study.report(number, [(after, value)])
        case ("tell", int(number), TrialState() as state, float(value)) if number in open_:
            study.tell(number, state, value if state is TrialState.COMPLETE else None)


def test_a_sweep_that_is_killed_and_run_again_chooses_what_it_would_have(
    make_asked: Callable[..., Asked], tmp_path: Path
) -> None:
    for sampler in ("tpe", "random"):
        asked = make_asked(sampler=sampler, seed=7)
        whole = Study(LocalStorage(tmp_path / sampler / "whole"), asked)
        chosen = [whole.ask().params for _ in range(6)]
        again = [Study(LocalStorage(tmp_path / sampler / "cut"), asked).ask().params for _ in range(6)]
        assert again == chosen
        assert len({json.dumps(params) for params in chosen}) == 6
        other = Study(LocalStorage(tmp_path / sampler / "other"), make_asked(sampler=sampler, seed=8))
        assert other.ask().params != chosen[0]


def test_a_process_killed_at_any_write_leaves_whole_trials(
    make_asked: Callable[..., Asked], tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    asked, storage = make_asked(), LocalStorage(tmp_path)
    for more in (3, 8, 14):
        before = len(storage.children(layout.STUDY))
        command = [sys.executable, "-c", ASK_ON, str(tmp_path), json.dumps(asked.to_json())]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            wait_until(lambda b=before, m=more: len(storage.children(layout.STUDY)) >= b + m, "entries of the study")
            process.kill()
        trials = Study(storage, asked).trials()
        assert trials and all(set(trial.params) == {"lr", "width"} for trial in trials)
        assert [trial.number for trial in trials] == list(range(len(trials)))


def test_what_was_cut_short_while_it_was_written_is_not_there(make_asked: Callable[..., Asked], tmp_path: Path) -> None:
    asked, storage = make_asked(), LocalStorage(tmp_path)
    study = Study(storage, asked)
    study.ask()
    folder = tmp_path / layout.STUDY
    (folder / f"{layout.TEMPORARY}x").write_bytes(b'{"logs": [')
    assert Study(storage, asked).trials() == study.trials()
    last = folder / f"{len(list(folder.glob('[0-9]*'))) - 1}.json"
    last.write_bytes(last.read_bytes()[:-5])
    with pytest.raises(ContractError, match=f"is damaged.*The file is {last}"):
        Study(storage, asked)


def test_two_processes_that_write_at_once_write_all_of_it(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", APPEND, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.communicate(b"\n", timeout=60)
        assert writer.returncode == 0
    logs = Journal(LocalStorage(tmp_path)).read_logs(0)
    for name in ("a", "b"):
        assert [log["index"] for log in logs if log["writer"] == name] == list(range(30))
    assert Journal(LocalStorage(tmp_path)).read_logs(59) == logs[59:]


def test_who_was_overtaken_says_so_and_writes_nothing(tmp_path: Path) -> None:
    ours, theirs = Journal(LocalStorage(tmp_path)), Journal(LocalStorage(tmp_path))
    with pytest.raises(PlatformError, match="Another process has written to"), ours.together():
        ours.append_logs([{"index": 0}])
        theirs.append_logs([{"index": 1}])
    assert Journal(LocalStorage(tmp_path)).read_logs(0) == [{"index": 1}]


def test_what_is_kept_together_is_read_at_once_and_written_at_the_end(tmp_path: Path) -> None:
    journal = Journal(LocalStorage(tmp_path))
    journal.append_logs([{"index": 0}])
    with journal.together():
        journal.append_logs([{"index": 1}])
        journal.append_logs([{"index": 2}])
        assert [log["index"] for log in journal.read_logs(1)] == [1, 2]
        assert Journal(LocalStorage(tmp_path)).read_logs(0) == [{"index": 0}]
    assert [log["index"] for log in Journal(LocalStorage(tmp_path)).read_logs(0)] == [0, 1, 2]
    with pytest.raises(ValueError), journal.together():
        journal.append_logs([{"index": 3}])
        raise ValueError
    assert len(Journal(LocalStorage(tmp_path)).read_logs(0)) == 3


@pytest.mark.parametrize("pruner", ["median", "halving", "hyperband"])
def test_a_trial_that_is_worse_than_others_is_given_up(
    make_asked: Callable[..., Asked], tmp_path: Path, pruner: str
) -> None:
    study = Study(LocalStorage(tmp_path), make_asked(pruner=pruner, mode="max"))
    for index in range(6):
        number = study.ask().number
        study.report(number, [(step, 10.0 - index) for step in STEPS_OF_A_TRIAL])
        study.tell(number, TrialState.COMPLETE, 10.0 - index)
    # Hyperband compares only trials of one bracket, to which they belong by their numbers.
    bad = [study.report(study.ask().number, [(step, -5.0) for step in STEPS_OF_A_TRIAL]) for _ in range(6)]
    assert any(bad) if pruner == "hyperband" else all(bad)


def test_without_a_pruner_nothing_is_given_up(make_asked: Callable[..., Asked], tmp_path: Path) -> None:
    study = Study(LocalStorage(tmp_path), make_asked(pruner="none"))
    for _ in range(6):
        number = study.ask().number
        study.report(number, [(1, 1.0)])
        study.tell(number, TrialState.COMPLETE, 1.0)
    assert study.report(study.ask().number, [(1, 1e9)]) is None


def test_the_best_is_complete_and_the_first_of_equals() -> None:
    def trial(number: int, state: TrialState, value: float | None) -> Trial:
        return Trial(number=number, params={}, state=state, value=value, last_step=0)

    complete, pruned = TrialState.COMPLETE, TrialState.PRUNED
    trials = [trial(0, pruned, 0.0), trial(1, complete, 2.0), trial(2, complete, 1.0), trial(3, complete, 1.0)]
    assert (best(trials, "min"), best(trials, "max")) == (trials[2], trials[1])
    assert best([trial(0, TrialState.FAILED, None)], "min") is None
