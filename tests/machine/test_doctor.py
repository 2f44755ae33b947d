"""What all checks of `boundby doctor` have in common, against surroundings made up in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_computer import Computer

from boundby.machine.checks import cores
from boundby.machine.checks.activity import read_activity
from boundby.machine.checks.surroundings import Surroundings, parse_cpu_list
from boundby.machine.doctor import CHECKS, examine, standing_findings
from boundby.results.doctor import finding_of


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_on_a_computer_that_tells_nothing_nothing_is_called_fine_that_was_not_seen(computer: Computer) -> None:
    here = Surroundings(root=computer.root, affinity=None, environ={"PATH": ""})
    states = {check.__name__: check(here).state for check in CHECKS}
    # These rest on the environment and on Python, which are always known.
    seen = {"check_python", "check_switches", "check_preloaded", "check_binding", "check_compiler"}
    assert {name for name, state in states.items() if state != "unknown"} == seen


def test_every_check_has_a_name_of_its_own_and_a_problem_says_what_it_does_and_what_to_do(computer: Computer) -> None:
    checks = examine(computer.surroundings()).checks
    assert len({one.name for one in checks}) == len(CHECKS) == len(checks)
    for one in checks:
        assert one.seen
        assert (one.code is not None) == bool(one.effect) == bool(one.advice) == (one.state == "problem")


@pytest.mark.parametrize(
    ("text", "cpus"), [("", ()), ("0", (0,)), ("0-2,5", (0, 1, 2, 5)), ("0-1, 3-4\n", (0, 1, 3, 4))]
)
def test_lists_of_cpus(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


def test_what_those_who_measure_are_told_at_once(computer: Computer) -> None:
    assert standing_findings(Surroundings(root=computer.root)) == ()
    computer.write("sys/fs/cgroup/cpu.max", "150000 100000")
    here = computer.surroundings(environ={"MKL_VERBOSE": "1"}, niceness=10)
    assert [one.code for one in standing_findings(here)] == ["quota-below-cores", "debug-variables", "low-priority"]


def test_a_problem_is_a_finding_too(computer: Computer) -> None:
    found = cores.check_priority(computer.surroundings(niceness=3))
    finding = finding_of(found)
    assert finding is not None
    assert (finding.code, finding.message, finding.advice) == ("low-priority", found.seen, found.advice)
    assert finding_of(cores.check_priority(computer.surroundings(niceness=0))) is None


PIECES = (
    "0",
    "7",
    "-1",
    "4096",
    "1.5",
    ",",
    "-",
    ":",
    " ",
    "\t",
    "\n",
    "(",
    ")",
    "[",
    "]",
    "max",
    "cpu0",
    "kB",
    "MemTotal:",
)


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30))
def test_files_that_hold_nonsense_break_no_check(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    garbage = "".join(pieces)
    computer = Computer(tmp_path_factory.mktemp("computer"))
    for path in (
        *("proc/stat", "proc/loadavg", "proc/meminfo", "proc/vmstat", "proc/uptime", "proc/cpuinfo", "proc/1/stat"),
        *("proc/self/cgroup", "proc/self/status", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/cpu.stat"),
        *("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory.stat"),
        *("sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/topology/thread_siblings_list"),
        *("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "sys/devices/system/node/node0/cpulist"),
        *("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "sys/class/power_supply/BAT0/type"),
        *("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "etc/ld.so.preload"),
    ):
        computer.write(path, garbage)
    read = read_activity(computer.root)
    examination = examine(computer.surroundings(before=read, after=read, environ={"OMP_NUM_THREADS": garbage}))
    assert len(examination.checks) == len(CHECKS)
