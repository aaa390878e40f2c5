"""Whether the kernel killed somebody for memory, by its counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra.host.memory import KillCount, counters, kills

V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
VMSTAT = "nr_free_pages 81\noom_kill {}\nnuma_hit 7\n"


def machine(folder: Path, groups: str, files: dict[str, str]) -> list[Path]:
    """The counters of a machine whose `/proc` and control groups hold these files."""
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return list(counters(folder / "proc", folder / "control"))


@pytest.mark.parametrize(
    ("groups", "files", "count"),
    [
        ("0::/slice/job\n", {"control/slice/job/memory.events": V2.format(4), "proc/vmstat": VMSTAT.format(9)}, 4),
        ("0::/not/seen/here\n", {"control/memory.events": V2.format(5), "proc/vmstat": VMSTAT.format(9)}, 5),
        (
            "9:name=systemd:/\n4:cpu,memory:/job\n0::/\n",
            {"control/memory/job/memory.oom_control": V1.format(6), "proc/vmstat": VMSTAT.format(9)},
            6,
        ),
        ("4:memory:/elsewhere\n", {"control/memory/memory.oom_control": V1.format(7)}, 7),
        ("0::/\n", {"proc/vmstat": VMSTAT.format(8)}, 8),
        ("0::/job\n", {"control/job/memory.events": "low 0\n", "proc/vmstat": VMSTAT.format(9)}, 9),
        ("a line of the future\n", {}, None),
    ],
)
def test_the_count_nearest_to_this_process_is_read(
    tmp_path: Path, groups: str, files: dict[str, str], count: int | None
) -> None:
    assert kills(machine(tmp_path, groups, files)) == count


def test_a_machine_without_such_files_says_nothing(tmp_path: Path) -> None:
    paths = list(counters(tmp_path, tmp_path))
    assert kills(paths) is None
    count = KillCount(paths, now=0.0)
    count.look(5.0)
    assert not count.has_grown


def test_a_kill_counts_for_a_moment_and_not_for_ever(tmp_path: Path) -> None:
    place = tmp_path / "vmstat"
    place.write_text(VMSTAT.format(3))
    count = KillCount([place], now=0.0)
    assert not count.has_grown
    place.write_text(VMSTAT.format(4))
    assert count.has_grown
    count.look(0.5)
    count.look(1.0)  # the look sees it just before the program is seen to have ended
    assert count.has_grown
    count.look(2.0)
    assert not count.has_grown, "somebody was killed long before"
