"""Whether memory ran out: by the kernel's counters, and by what exceptions say."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefect_tpu.infra.host.memory import KillCount, counters, is_out_of_memory, kills

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


class JaxRuntimeError(RuntimeError):
    """As JAX raises it."""


class OutOfMemoryError(RuntimeError):
    """As torch raises it."""


def after(cause: Exception, error: Exception) -> Exception:
    try:
        try:
            raise cause
        except Exception:
            raise error  # noqa: B904 (the context alone must do)
    except Exception as exc:
        return exc


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (MemoryError(), True),
        (type("_ArrayMemoryError", (MemoryError,), {})("Unable to allocate 8 TiB"), True),
        (JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes."), True),
        (OutOfMemoryError("CUDA out of memory."), True),
        (after(MemoryError(), ValueError("no batch")), True),
        (after(JaxRuntimeError("RESOURCE_EXHAUSTED: TPU"), RuntimeError("step failed")), True),
        (JaxRuntimeError("INTERNAL: after RESOURCE_EXHAUSTED"), False),
        (ValueError("RESOURCE_EXHAUSTED: not of JAX"), False),
        (RuntimeError("out of memory"), False),
    ],
)
def test_what_exceptions_say(error: Exception, answer: bool) -> None:
    assert is_out_of_memory(error) is answer
