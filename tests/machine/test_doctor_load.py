"""The checks of what else uses the processor, against surroundings made up in a folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_computer import Computer, activity, outcome

from boundby.machine.checks import load
from boundby.machine.checks.activity import Activity, CpuTicks, ProcessTicks, read_activity
from boundby.machine.checks.surroundings import Surroundings


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_load_is_that_of_the_cpus_this_process_may_use_and_names_who_makes_it(computer: Computer) -> None:
    before = activity(100, 100, 100, total=1000, processes={7: 10, 8: 10, 9: 10})
    after = activity(150, 101, 150, total=1050, processes={7: 58, 8: 11, 9: 10, 10: 99})
    here = computer.write("proc/loadavg", "1.25 0.50 0.10 1/99 4242").surroundings(before=before, after=after)
    found = load.check_load(here)
    assert outcome(found) == "other-load"
    assert "1.02 of 2 CPUs" in found.seen
    assert "load average 1.25" in found.seen
    assert "other (pid 7) 0.96" in found.seen
    assert "pid 8" not in found.seen
    assert outcome(load.check_load(replace(here, affinity=(1,)))) == "ok"


def test_the_work_of_this_process_and_of_what_it_started_is_no_load() -> None:
    own = os.getpid()
    parents = {own: 1, 900_001: own, 900_002: 900_001, 900_003: 1}

    def moment(total: int, **used: int) -> Activity:
        ticks = dict(zip(parents, used.values(), strict=True))
        processes = {pid: ProcessTicks(name="p", parent=parents[pid], used=ticks[pid]) for pid in parents}
        return replace(activity(sum(ticks.values()), total=total), processes=processes)

    before = moment(1000, own=0, child=0, grandchild=0, other=0)
    after = moment(1100, own=40, child=30, grandchild=20, other=10)
    here = Surroundings(affinity=(0,), before=before, after=after)
    assert outcome(load.check_load(here)) == "ok"
    assert "0.10 of 1 CPU" in load.check_load(here).seen
    busier = replace(here, after=moment(1100, own=40, child=10, grandchild=10, other=40))
    assert outcome(load.check_load(busier)) == "other-load"
    assert "pid 900003) 0.40" in load.check_load(busier).seen
    assert "pid 900001" not in load.check_load(busier).seen


def test_load_that_no_visible_process_explains_is_told_as_such(computer: Computer) -> None:
    here = computer.surroundings(before=activity(0, 0, total=1000), after=activity(50, 0, total=1050))
    assert "No process that can be seen from here is busy" in load.check_load(here).seen


def test_a_load_average_alone_does_not_pass_for_a_quiet_machine(computer: Computer) -> None:
    found = load.check_load(computer.write("proc/loadavg", "0.00 0.00 0.00 1/99 4242").surroundings())
    assert found.state == "unknown"
    assert "0.00 over a minute" in found.seen


def test_stolen_time_counts_now_and_since_the_start(computer: Computer) -> None:
    quiet = computer.surroundings(
        before=activity(0, total=10_000, stolen=10), after=activity(0, total=10_100, stolen=10)
    )
    assert outcome(load.check_stolen(quiet)) == "ok"
    now = replace(quiet, after=activity(0, total=10_100, stolen=20))
    assert outcome(load.check_stolen(now)) == "time-stolen"
    earlier = computer.surroundings(
        before=activity(0, total=10_000, stolen=900), after=activity(0, total=10_100, stolen=900)
    )
    assert outcome(load.check_stolen(earlier)) == "time-stolen"


@pytest.mark.parametrize(
    ("periods", "stopped", "expected"),
    [(0, 0, "ok"), (1000, 0, "ok"), (1000, 9, "ok"), (1000, 10, "stopped-by-quota"), (10, 10, "stopped-by-quota")],
)
@pytest.mark.parametrize("folder", ["sys/fs/cgroup", "sys/fs/cgroup/cpu"])
def test_quota_hits(computer: Computer, folder: str, periods: int, stopped: int, expected: str) -> None:
    computer.write(f"{folder}/cpu.stat", f"usage_usec 5\nnr_periods {periods}\nnr_throttled {stopped}")
    assert outcome(load.check_throttled(computer.surroundings())) == expected


def test_a_cpu_stat_without_the_counters_is_unknown(computer: Computer) -> None:
    computer.write("sys/fs/cgroup/cpu.stat", "usage_usec 5\nuser_usec 4")
    assert load.check_throttled(computer.surroundings()).state == "unknown"


def test_activity_is_read_as_the_kernel_writes_it(computer: Computer) -> None:
    computer.write("proc/stat", "cpu  9 9 9 9\ncpu0 10 1 5 100 7 2 3 4 6 0\ncpu1 1 2\nintr 5")
    computer.write("proc/42/stat", "42 (a) b (c)) S 7 1 1 0 -1 0 0 0 0 0 30 12 0 0 20 0")
    computer.write("proc/43/stat", "")
    computer.write("proc/vmstat", "pswpin 3\npswpout 4\npgfault 9")
    read = read_activity(computer.root)
    assert read.cpus == {0: CpuTicks(busy=21, stolen=4, total=132)}
    assert read.processes == {42: ProcessTicks(name="a) b (c)", parent=7, used=42)}
    assert (read.swapped_pages, read.heat_events) == (7, None)
