"""GPUs: found by what their driver says, jobs side by side never meet on one, and what stands in for them is said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.accelerator_table import GPUS
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.local_gpus import (
    VISIBLE,
    Gpu,
    LocalGpus,
    in_words,
    is_of,
    machine_gpus,
    share,
    stand_in,
)
from prefect_tpu.infra.contract import Env

H100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA L4"
MakeDriver = Callable[..., dict[str, str]]


@pytest.fixture
def driver(tmp_path: Path) -> MakeDriver:
    """An environment in which `nvidia-smi` is found, and answers as the real one did on a machine with an H100."""

    def make(*models: str, exit_code: int = 0) -> dict[str, str]:
        lines = [f"{index}, GPU-{index}c114df16-1fcb, {model}" for index, model in enumerate(models)]
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!{sys.executable}\nprint({chr(10).join(lines)!r})\nraise SystemExit({exit_code})\n")
        tool.chmod(0o755)
        return {"PATH": str(tmp_path)}

    return make


def names(gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    return tuple(gpu.name for gpu in gpus)


def test_the_driver_says_which_there_are(driver: MakeDriver, tmp_path: Path) -> None:
    (tmp_path / "nvidia3").touch()
    found = machine_gpus(driver(H100, L4), tmp_path)
    assert found == (Gpu(name="0", model=H100), Gpu(name="1", model=L4))


@pytest.mark.parametrize("has_tool", [False, True])
def test_where_no_driver_answers_the_devices_are_counted_as_cuda_counts(
    driver: MakeDriver, tmp_path: Path, has_tool: bool
) -> None:
    for name in ("nvidia3", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    environment = driver(exit_code=9) if has_tool else {"PATH": "/nowhere"}
    assert machine_gpus(environment, tmp_path) == (Gpu(name="0"), Gpu(name="1"))


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("1", ("1",)), ("1, 0", ("1", "0")), ("GPU-1c114", ("GPU-1c114",)), ("MIG-7", ("MIG-7",)),
        ("", ()), ("-1", ()), ("NoDevFiles", ()), ("0,-1,1", ("0",)), ("0,7,1", ("0",)), ("GPU-9", ()),
    ],
)  # fmt: skip
def test_the_environment_s_choice_outranks_the_machine(
    driver: MakeDriver, visible: str, found: tuple[str, ...]
) -> None:
    assert names(machine_gpus({**driver(H100, L4), VISIBLE: visible})) == found


def test_a_choice_is_believed_where_no_driver_answers() -> None:
    assert names(machine_gpus({"PATH": "/nowhere", VISIBLE: "3, GPU-8f2a"})) == ("3", "GPU-8f2a")


def test_a_chosen_gpu_has_its_model(driver: MakeDriver) -> None:
    environment = driver(H100, L4)
    assert [machine_gpus({**environment, VISIBLE: name})[0].model for name in ("1", "GPU-1c114", "0")] == [L4, L4, H100]


@given(gpus=st.integers(0, 16), slices=st.integers(1, 6))
def test_slices_share_equally_and_without_overlap(gpus: int, slices: int) -> None:
    there = tuple(Gpu(name=str(number)) for number in range(gpus))
    shares = [share(there, slices, number) for number in range(slices)]
    assert {len(each) for each in shares} == {gpus // slices}
    assert len({gpu for each in shares for gpu in each}) == slices * (gpus // slices)


def test_a_job_gets_as_many_as_it_names_of_its_slice_s_share(driver: MakeDriver) -> None:
    lent = LocalGpus({**driver(*[L4] * 4), Env.SLICES: "2"})
    assert lent.of_a_slice == 2 and lent.serve(resolve("l4x4")) and not lent.serve(resolve("v6e-8"))
    assert names(lent.chosen(resolve("l4"), 1)) == ("2",)
    assert names(lent.chosen(resolve("l4x2"), 1)) == ("2", "3")
    assert lent.chosen(resolve("v6e-8"), 1) == ()


CARDS = {
    "Tesla P4": {"p4"},
    "Tesla P100-PCIE-16GB": {"p100"},
    "Tesla T4": {"t4"},
    "Tesla V100-SXM2-16GB": {"v100"},
    L4: {"l4"},
    "NVIDIA L40S": set(),
    "NVIDIA A100-SXM4-40GB": {"a100"},
    "NVIDIA A100-SXM4-80GB": {"a100-80gb"},
    "NVIDIA A100 80GB PCIe": {"a100-80gb"},
    H100: {"h100", "h100-mega"},
    "NVIDIA GH200 480GB": set(),
    "NVIDIA H200": {"h200"},
    "NVIDIA B200": {"b200"},
    "NVIDIA GB200": {"gb200"},
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": {"rtx-pro-6000"},
}


@pytest.mark.parametrize(("model", "generations"), CARDS.items())
def test_cards_are_known_by_what_they_call_themselves(model: str, generations: set[str]) -> None:
    assert {generation for generation in GPUS if is_of(model, generation)} == generations


def test_what_stands_in_is_said_and_nothing_else() -> None:
    l4, h100, unknown = Gpu(name="0", model=L4), Gpu(name="1", model=H100), Gpu(name="2")
    said = "No GPU is to be seen on this machine: CPU devices stand in for l4x2."
    assert stand_in(resolve("l4x2"), ()) == said
    other = "The GPUs of this machine are not what l4x2 names: 1 NVIDIA L4, 1 NVIDIA H100 80GB HBM3 will stand in."
    assert stand_in(resolve("l4x2"), (l4, h100)) == other
    assert {stand_in(resolve("l4"), (gpu,)) for gpu in (l4, unknown)} == {""}
    assert {stand_in(resolve(name), ()) for name in ("v6e-8", "cpu")} == {""}
    assert in_words((h100, unknown, h100)) == "2 NVIDIA H100 80GB HBM3, 1 of unknown model"
