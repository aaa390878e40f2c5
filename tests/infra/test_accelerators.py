"""What accelerator strings stand for: every row of the oracle, both dialects, and anything people may type."""

from __future__ import annotations

import csv
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.accelerator_table import GENERATIONS, GPUS, named_topologies, topologies
from prefect_tpu.infra.accelerators import Slice, curated_names, every_name, resolve
from prefect_tpu.infra.errors import UsageError

ORACLE = Path(__file__).parents[1] / "oracles" / "accelerators.tsv"
TPU_NAMES = [name for name in every_name() if resolve(name).platform == "tpu"]
TWO_BY_FOUR = {"v5litepod-2x4", "v5litepod-8", "v6e-2x4", "v6e-8"}

tpu_names = st.sampled_from(TPU_NAMES)
every_names = st.sampled_from(every_name())


def sides(found: Slice) -> tuple[int, ...]:
    assert found.topology is not None
    return tuple(int(side) for side in found.topology.split("x"))


def test_every_row_of_the_oracle_agrees() -> None:
    with ORACLE.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 2020
    assert TWO_BY_FOUR.issubset(row["name"] for row in rows)
    for row in rows:
        found = resolve(row["name"], machine_type=row["machine_type"] if row["name"] in TWO_BY_FOUR else None)
        assert {
            "name": row["name"],
            "topology": found.topology,
            "hosts": str(found.hosts),
            "gke_tpu_accelerator": found.gke_accelerator,
            "machine_type": found.machine_type,
            "chips_per_host": str(found.chips_per_host),
        } == row


def test_the_oracle_knows_no_topology_that_we_lack_nor_we_one_more() -> None:
    with ORACLE.open() as file:
        names = {row["name"].replace("v5litepod", "v5e") for row in csv.DictReader(file, delimiter="\t")}
    ours = {name for name in TPU_NAMES if name.split("-")[0] in {"v4", "v5p", "v6e", "tpu7x", "tpu7"}}
    assert ours == {name for name in names if not name.startswith("v5e")}


def test_v5p_32_is_16_chips_on_4_hosts() -> None:
    assert resolve("v5p-32") == Slice(
        name="v5p-32",
        platform="tpu",
        generation="v5p",
        topology="2x2x4",
        machine_type="ct5p-hightpu-4t",
        chips=16,
        hosts=4,
        chips_per_host=4,
        jax_devices=16,
        gke_accelerator="tpu-v5p-slice",
    )


@pytest.mark.parametrize(
    ("name", "topology", "machine", "hosts", "devices", "label"),
    [
        ("v2-8", "2x2", None, 1, 8, None),
        ("v2-512", "16x16", None, 64, 512, None),
        ("v3-8", "2x2", "ct3-hightpu-4t", 1, 8, "tpu-v3-device"),
        ("v3-32", "4x4", "ct3p-hightpu-4t", 4, 32, "tpu-v3-slice"),
        ("v3-2048", "32x32", "ct3p-hightpu-4t", 256, 2048, "tpu-v3-slice"),
        ("v4-8192", "4x4x256", "ct4p-hightpu-4t", 1024, 4096, "tpu-v4-podslice"),
        ("v5e-1", "1x1", "ct5lp-hightpu-1t", 1, 1, "tpu-v5-lite-podslice"),
        ("v5e-4", "2x2", "ct5lp-hightpu-4t", 1, 4, "tpu-v5-lite-podslice"),
        ("v5e-8", "2x4", "ct5lp-hightpu-8t", 1, 8, "tpu-v5-lite-podslice"),
        ("v6e-8", "2x4", "ct6e-standard-8t", 1, 8, "tpu-v6e-slice"),
        ("v6e-8@ct6e-standard-4t", "2x4", "ct6e-standard-4t", 2, 8, "tpu-v6e-slice"),
        ("v6e-16", "4x4", "ct6e-standard-4t", 4, 16, "tpu-v6e-slice"),
        ("tpu7x-2", "1x1x1", "tpu7x-standard-1t", 1, 2, "tpu7x"),
        ("tpu7x-128", "4x4x4", "tpu7x-standard-4t", 16, 128, "tpu7x"),
        ("tpu7x-128@tpu7x-ultranet-4t", "4x4x4", "tpu7x-ultranet-4t", 16, 128, "tpu7x"),
        ("tpu7-512", "4x8x8", "tpu7-standard-4t", 64, 512, "tpu7"),
        ("l4", None, "g2-standard-4", 1, 1, "nvidia-l4"),
        ("a100x16", None, "a2-megagpu-16g", 1, 16, "nvidia-tesla-a100"),
        ("a100-80gbx2", None, "a2-ultragpu-2g", 1, 2, "nvidia-a100-80gb"),
        ("h100x8", None, "a3-highgpu-8g", 1, 8, "nvidia-h100-80gb"),
        ("h200x8", None, "a3-ultragpu-8g", 1, 8, "nvidia-h200-141gb"),
        ("rtx-pro-6000x4", None, "g4-standard-192", 1, 4, "nvidia-rtx-pro-6000"),
        ("cpu", "1x1", None, 1, 1, None),
        ("cpu-2x1", "2x1", None, 2, 2, None),
        ("cpu-4x4", "4x4", None, 4, 16, None),
    ],
)
def test_a_name_stands_for(
    name: str, topology: str | None, machine: str | None, hosts: int, devices: int, label: str | None
) -> None:
    found = resolve(name)
    assert found.name == name
    assert (found.topology, found.machine_type, found.hosts, found.jax_devices, found.gke_accelerator) == (
        topology,
        machine,
        hosts,
        devices,
        label,
    )


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("v5litepod-16", "v5e-16"),
        ("TPU-V5LitePod-4x4", "v5e-16"),
        ("tpu:v6e-8", "v6e-8"),
        (" V6E-2x4 ", "v6e-8"),
        ("v5p-2x2x4", "v5p-32"),
        ("v5p-4x4x16", "v5p-4x4x16"),
        ("tpu-tpu7x-8", "tpu7x-8"),
        ("v6e-8@ct6e-standard-8t", "v6e-8"),
        ("gpu-L4", "l4"),
        ("gpu:a100x4", "a100x4"),
        ("nvidia-tesla-a100x4", "a100x4"),
        ("l4x1", "l4"),
        ("cpu-1x1", "cpu"),
        ("CPU-2X1", "cpu-2x1"),
    ],
)
def test_spellings_of_one_slice_are_equal(spelling: str, name: str) -> None:
    assert resolve(spelling) == resolve(name)
    assert resolve(spelling).name == name


@pytest.mark.parametrize("name", ["a100-3g.40gb", "a100:3g.40gb", "H100-MIG-1g.10gb", "gpu:a100:mig"])
def test_parts_of_a_gpu_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UsageError, match="NCCL joins no partitions of one. Give the GPU's name, such as 'a100'"):
        resolve(name)


@pytest.mark.parametrize("capacity", ["spot", "on-demand", "reserved", "reserved=my-block.1", "flex-start", "queue"])
def test_capacity_is_said_after_the_name(capacity: str) -> None:
    assert resolve(f"v6e-8@ct6e-standard-4t:{capacity}").capacity == capacity
    assert resolve(f"TPU:v6e-16:{capacity.upper()}").capacity == capacity
    assert resolve("v6e-16").capacity is None


# Kinetic's names count chips; its whole table but for the v3 size that no pod has.
KINETIC = {
    "v6e-8": "2x4",
    "v6e-16": "4x4",
    "v6e": "2x4",
    "v5p-8": "2x2x2",
    "v5p-16": "2x2x4",
    "v5p-32": "2x4x4",
    "v5p": "2x2x2",
    "v5litepod-1": "1x1",
    "v5litepod-256": "16x16",
    "v5e": "2x2",
    "v4-4": "2x2x1",
    "v4-8": "2x2x2",
    "v4-16": "2x2x4",
    "v4-32": "2x4x4",
    "v4-64": "4x4x4",
    "v4-128": "4x4x8",
    "v4-256": "4x8x8",
    "v4-512": "8x8x8",
    "v4-1024": "8x8x16",
    "v4-2048": "8x16x16",
    "v4-4096": "16x16x16",
    "v4": "2x2x1",
    "v3-4": "2x2",
    "v3-16": "4x4",
    "v3-32": "4x8",
    "v3-64": "8x8",
    "v3-128": "8x16",
    "v3-256": "16x16",
    "v3-512": "16x32",
    "v3-1024": "32x32",
    "v3": "2x2",
}


@pytest.mark.parametrize(("name", "topology"), KINETIC.items())
def test_the_chips_dialect_reads_kinetics_names(name: str, topology: str) -> None:
    assert resolve(name, "chips").topology == topology


def test_a_bare_generation_has_a_size_in_the_chips_dialect_only() -> None:
    with pytest.raises(UsageError, match="'v5p' needs a number or a topology.*'v5p-8'"):
        resolve("v5p")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("v5p-24", r"needs a topology, and no v5p topology has 12 chips .*'v5p-16' \(2x2x2\) or 'v5p-32' \(2x2x4\)"),
        ("v5p-7", r"TensorCores, 2 a chip.*'v5p-8' \(2x2x1\)"),
        ("v6e-2048", r"names count chips.*'v6e-256' \(16x16\)"),
        ("v5p-8x4x4", "another order.*'v5p-4x4x8'"),
        ("v5p-4x4x5", "nor has any 80 chips.*'v5p-4x4x4'"),
        ("v6e-1x16", "others have 16 chips too.*'v6e-4x4'"),
        ("v5p-4x4", "others have 16 chips too.*'v5p-2x2x4'"),
        ("v5p-4x4x260", "others have 4160 chips too: use 'v5p-4x20x52'"),
        ("v5p-x", "needs a number or a topology"),
        ("v5p-0032", "needs a number or a topology"),
        ("v5p-٣٢", "needs a number or a topology"),
        ("v7e-16", "did you mean 'v6e-16'"),
        ("tpu7y-16", "did you mean .*'tpu7x-16'"),
        ("l4x3", "l4 comes as 'l4', 'l4x2', 'l4x4', 'l4x8'"),
        ("h200", "h200 comes as 'h200x8'"),
        ("tpu:8", "give one such as 'v6e-16'"),
        ("gpu-v6e-8", "starts with 'gpu'"),
        ("tpu-l4", "starts with 'tpu'"),
        ("tpu-cpu", "starts with 'tpu'"),
        ("cpu:spot", "'cpu' is this machine"),
        ("cpu@n1-standard-4", "it has no machine type"),
        ("v2-8@n1-standard-4", "it has no machine type"),
        ("cpu-0x4", "not known"),
        ("v6e-16:spot:spot", "capacity 'spot:spot'"),
        ("v6e-16:", "capacity ''"),
        ("v6e-16:cheap", "capacity 'cheap'"),
        ("v6e-16:reserved=", "capacity 'reserved='"),
        ("v6e-16@ct6e-standard-8t", "'ct6e-standard-8t': use 'ct6e-standard-4t'"),
        ("v6e-4@ct6e-standard-1t", "'ct6e-standard-1t': use 'ct6e-standard-4t'"),
        ("v3-32@ct3-hightpu-4t", "use 'ct3p-hightpu-4t'"),
        ("v6e-16@", "no machine type after '@'"),
        ("h100x8@a3-highgpu-4g", "use 'a3-highgpu-8g'"),
    ],
)
def test_a_name_that_means_nothing_says_what_would(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        resolve(name)
    assert repr(name) in str(caught.value)


def test_two_machine_types_that_differ_are_refused() -> None:
    assert resolve("v6e-8@ct6e-standard-4t", machine_type="CT6E-standard-4t").hosts == 2
    with pytest.raises(UsageError, match="another machine type than 'ct6e-standard-8t'"):
        resolve("v6e-8@ct6e-standard-4t", machine_type="ct6e-standard-8t")


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(UsageError, match="'kinetic' is not known: use one of 'google', 'chips'"):
        resolve("v5p-32", "kinetic")


def test_what_surprises_is_noted() -> None:
    assert resolve("v4-8192").notes == ("not the squarest of its size: that is v4-16x16x16",)
    assert resolve("v6e-8").notes == ("@ct6e-standard-4t makes it 2 hosts",)
    assert resolve("v6e-8@ct6e-standard-4t").notes == ("@ct6e-standard-8t makes it 1 host",)
    assert "6144 chips" in " ".join(resolve("v5p-17920").notes)
    assert "GKE has no label" in " ".join(resolve("v2-8").notes)
    assert "not verified" in " ".join(resolve("tpu7-8").notes)


@given(name=every_names)
def test_a_slice_adds_up(name: str) -> None:
    found = resolve(name)
    assert found.hosts * found.chips_per_host == found.chips
    assert found.devices_per_host * found.hosts == found.jax_devices
    assert found.topology is None or prod(sides(found)) == found.chips
    per_chip = 2 if found.generation in {"v2", "v3", "tpu7x", "tpu7"} else 1
    assert found.jax_devices == per_chip * found.chips
    assert found.platform != "gpu" or found.hosts == 1


@given(name=every_names)
def test_the_canonical_name_leads_back_to_the_slice(name: str) -> None:
    assert resolve(resolve(name).name) == resolve(name)


@given(name=tpu_names)
def test_the_topology_leads_back_to_the_slice(name: str) -> None:
    found = resolve(name)
    assert resolve(f"{found.generation}-{found.topology}") == found


@given(name=tpu_names)
def test_every_machine_that_makes_a_slice_can_be_asked_for(name: str) -> None:
    default = resolve(name)
    for machine in GENERATIONS[default.generation].machines:
        if machine.name is None or not machine.makes(sides(default)):
            continue
        found = resolve(name, machine_type=machine.name)
        assert found == resolve(f"{name}@{machine.name}") == resolve(found.name)
        assert found.machine_type == machine.name
        assert found.hosts * machine.chips == found.chips == default.chips


@given(name=every_names, data=st.data())
def test_case_prefix_and_space_change_nothing(name: str, data: st.DataObject) -> None:
    found = resolve(name)
    letters = "".join(data.draw(st.sampled_from([letter.lower(), letter.upper()])) for letter in name)
    prefixes = [""] if found.platform == "cpu" else ["", f"{found.platform}-", f"{found.platform.upper()}:"]
    assert resolve(f" {data.draw(st.sampled_from(prefixes))}{letters}\n") == found


@given(name=st.sampled_from(curated_names()))
def test_both_dialects_agree_on_what_they_both_name(name: str) -> None:
    found = resolve(name)
    if found.platform != "tpu":
        assert resolve(name, "chips") == found
        return
    by_chips = resolve(f"{found.generation}-{found.chips}", "chips")
    assert by_chips.chips == found.chips
    assert resolve(f"{found.generation}-{found.topology}", "chips") == found
    if not GENERATIONS[found.generation].chips_names:
        assert by_chips == found


@given(name=st.sampled_from(curated_names("chips")))
def test_every_name_listed_for_the_chips_dialect_is_one(name: str) -> None:
    found = resolve(name, "chips")
    assert found.platform != "tpu" or name == f"{found.generation}-{found.chips}"


@given(text=st.text(), dialect=st.sampled_from(["google", "chips"]))
def test_garbage_is_a_usage_error_and_nothing_else(text: str, dialect: str) -> None:
    with pytest.raises(UsageError):
        resolve(f"?{text}", dialect)


@given(
    parts=st.lists(
        st.sampled_from(
            [*GENERATIONS, *GPUS, "cpu", "v5litepod", "tpu", "gpu", "-", ":", "@", "x", "2", "4", "16", "spot"]
            + ["reserved", "=", "ct6e-standard-4t", "9" * 5000, " ", "\n"]
        ),
        max_size=9,
    ),
    dialect=st.sampled_from(["google", "chips"]),
)
def test_words_of_the_grammar_in_any_order_resolve_or_are_a_usage_error(parts: list[str], dialect: str) -> None:
    try:
        found = resolve("".join(parts), dialect)
    except UsageError as error:
        assert "Accelerator" in str(error)
    else:
        assert found.hosts * found.chips_per_host == found.chips


def test_names_are_listed_once_and_sizes_are_whole() -> None:
    assert len(set(every_name())) == len(every_name())
    for generation in GENERATIONS.values():
        assert set(named_topologies(generation).values()) <= set(topologies(generation))
    assert [len(topologies(GENERATIONS[name])) for name in ("v4", "v5p", "tpu7x", "tpu7")] == [800, 414, 433, 10]
