"""The checks of memory, against surroundings made up in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_computer import Computer, activity, outcome

from boundby.machine.checks import memory


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_little_memory(computer: Computer) -> None:
    assert outcome(memory.check_memory(computer.memory(16, 8).surroundings())) == "ok"
    assert outcome(memory.check_memory(computer.memory(64, 6).surroundings())) == "memory-low"
    assert outcome(memory.check_memory(computer.memory(4, 1.5).surroundings())) == "memory-low"


def test_the_group_with_least_room_counts_and_cached_files_are_room(computer: Computer) -> None:
    computer.memory(64, 60).write("proc/self/cgroup", "0::/user/job")
    for folder, (limit, used, cached) in {"user/job": (32, 4, 0), "user": (16, 15, 10)}.items():
        for name, text in {"max": limit << 30, "current": used << 30}.items():
            computer.write(f"sys/fs/cgroup/{folder}/memory.{name}", str(text))
        computer.write(f"sys/fs/cgroup/{folder}/memory.stat", f"anon 1\ninactive_file {cached << 30}")
    found = memory.check_memory(computer.surroundings())
    assert outcome(found) == "ok"
    assert "11 GiB left of the control group's 16 GiB" in found.seen
    computer.write("sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file 0")
    found = memory.check_memory(computer.surroundings())
    assert outcome(found) == "memory-low"
    assert "1 GiB left" in found.seen


def test_a_limit_whose_use_is_not_told_is_unknown(computer: Computer) -> None:
    computer.memory(64, 60).write("sys/fs/cgroup/memory.max", str(8 << 30))
    assert memory.check_memory(computer.surroundings()).state == "unknown"


def test_swap(computer: Computer) -> None:
    assert outcome(memory.check_swap(computer.memory(16, 8).surroundings())) == "ok"
    little = computer.memory(16, 8, swap_gib=8, swapped_gib=1).surroundings()
    assert outcome(memory.check_swap(little)) == "ok"
    moving = replace(little, before=activity(swapped_pages=10), after=activity(swapped_pages=500))
    assert outcome(memory.check_swap(moving)) == "swapping"
    assert "490 pages" in memory.check_swap(moving).seen
    assert outcome(memory.check_swap(computer.memory(16, 8, swap_gib=8, swapped_gib=2).surroundings())) == "swapping"


@pytest.mark.parametrize(
    ("enabled", "defrag", "expected"),
    [
        ("always [madvise] never", "always defer [madvise] never", "ok"),
        ("[always] madvise never", "always defer [madvise] never", "ok"),
        ("[always] madvise never", "[always] defer madvise never", "huge-pages-stall"),
        ("always madvise [never]", "always defer [madvise] never", "huge-pages-off"),
        ("nonsense", "", "unknown"),
    ],
)
def test_huge_pages(computer: Computer, enabled: str, defrag: str, expected: str) -> None:
    folder = "sys/kernel/mm/transparent_hugepage"
    computer.write(f"{folder}/enabled", enabled).write(f"{folder}/defrag", defrag)
    assert outcome(memory.check_huge_pages(computer.surroundings())) == expected
