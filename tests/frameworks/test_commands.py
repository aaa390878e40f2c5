"""Commands that import nothing of ours: google-tunix's own, on a slice of four devices, until it wants a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.frameworks

CONFIG = """\
model_config:
  model_name: qwen2.5-0.5b
  model_id: Qwen/Qwen2.5-0.5B
  model_source: huggingface
  intermediate_ckpt_dir: kept
  model_display: false
  lora_config: {}
  mesh: {shape: "(1, 1)", axis_names: "('fsdp', 'tp')"}
tokenizer_config: {tokenizer_path: tokenizer.model, tokenizer_type: sentencepiece}
training_config: {max_steps: 5}
"""


def test_tunix_lays_its_mesh_over_the_slice_and_then_wants_a_model(machine: Any, frameworks: Path) -> None:
    """Which cannot be had here: the hub is told to be offline. The job ends as a program's own failure, log and all."""
    config = machine.folder / "tuned.yaml"
    config.write_text(CONFIG)
    asked = machine.start(
        frameworks / "prefect-tpu", "run", "python", "-a", "cpu-1x4", "--name", "tuned", "--json",
        "--env", "HF_HUB_OFFLINE=1", "--",
        "-m", "tunix.cli.peft_main", config, "model_config.mesh.shape=(2,2)", "training_config.max_steps=7",
    )  # fmt: skip
    assert asked.wait(280.0) == 1, asked.err
    failure = json.loads(asked.out.splitlines()[-1])["failure"]
    assert failure["kind"] == "program_error"
    log = (machine.output / "tuned/attempts/1/hosts/0/log").read_text()
    assert "'shape': '(2,2)'" in log and "'max_steps': 7" in log
    assert "download_model" in log and "OfflineModeIsEnabled" in log, "it ended elsewhere than at the hub"
