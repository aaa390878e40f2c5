"""A Python call has the options of the flow, and says which one was meant."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from prefect_tpu.flows.form import Pods, Timing, Training
from prefect_tpu.flows.options import OF_RUN, OF_SWEEP, OF_TRAIN, PLAIN, TIMING, TRAINING, check_names
from prefect_tpu.flows.sweep import sweep
from prefect_tpu.flows.train import train
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pods import PodSettings


def test_options_are_the_parameters_of_the_flow_and_the_fields_of_its_timing() -> None:
    taken = set(inspect.signature(train.fn).parameters)
    assert set(OF_TRAIN) == taken | set(TIMING)
    assert set(Timing.model_fields) == set(TIMING)
    assert set(OF_SWEEP) == set(inspect.signature(sweep.fn).parameters) - {"training"} | {*TRAINING, *TIMING}
    assert set(TRAINING) == set(Training.model_fields)
    assert set(OF_RUN) == set(OF_TRAIN) - {"program", "params"} | {"gather"}


def test_a_sweep_has_the_options_of_its_trials_by_the_same_names() -> None:
    of_trials = {name: given.default for name, given in inspect.signature(train.fn).parameters.items()}
    of_sweeps = {name: given.default for name, given in inspect.signature(sweep.fn).parameters.items()}
    of_sweeps = {**of_sweeps, **of_sweeps.pop("training").given()}
    # Programs of sweeps are functions, and what fits is asked once, not for each trial.
    assert set(of_trials) - set(of_sweeps) == {"arguments", "compile"}
    shared = set(of_trials) & set(of_sweeps)
    assert {name for name in shared if of_trials[name] != of_sweeps[name]} == set()


def test_settings_are_those_of_a_job_with_its_defaults() -> None:
    defaults = {field.name: field.default for field in fields(SliceJob)}
    assert {*PLAIN, *TIMING} <= set(defaults)
    assert Timing().model_dump() == {name: defaults[name] for name in TIMING}


def test_what_is_taken_together_for_trainings_is_a_job_with_its_defaults() -> None:
    defaults = {field.name: field.default for field in fields(SliceJob)}
    settings = Training().settings()
    assert set(settings) == {*TRAINING, *TIMING} - {"fallback_accelerators", "timing"}
    assert {name: value or None for name, value in settings.items()} == {
        name: None if name == "env" else defaults[name] or None for name in settings
    }


def test_the_form_has_every_setting_of_pods_with_its_default() -> None:
    settings, form = PodSettings(image="python"), Pods().model_dump()
    assert set(form) == {field.name for field in fields(PodSettings)} - {"image", "cluster"}
    assert {name: value or None for name, value in form.items()} == {
        name: getattr(settings, name) or None for name in form
    }
    assert Pods.model_config["extra"] == "forbid"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("acelerator", r"train\(\) has no option 'acelerator'\. Did you mean 'accelerator'\?"),
        ("max_failure", "Did you mean 'max_failures'"),
        ("quux", r"train\(\) has no option 'quux'\. It has: program, accelerator, params"),
    ],
)
def test_an_option_that_is_not_there_is_refused_with_the_nearest(name: str, says: str) -> None:
    check_names("train", ("accelerator", "grace"), OF_TRAIN)
    with pytest.raises(UsageError, match=says):
        check_names("train", (name,), OF_TRAIN)
