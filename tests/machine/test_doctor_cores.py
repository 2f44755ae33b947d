"""The checks of cores and threads, against surroundings made up in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_computer import BLAS, GNU, INTEL, STACK, Computer, outcome

from boundby.machine.checks import cores


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_two_threads_on_one_cpu_are_a_problem(computer: Computer) -> None:
    found = cores.check_threads(computer.cpus(2).surroundings(affinity=(0,)))
    assert outcome(found) == "threads-over-cores"
    assert "2 threads" in found.seen
    assert "OMP_NUM_THREADS=1" in found.advice


def test_a_quota_of_one_and_a_half_cores_leaves_one_thread(computer: Computer) -> None:
    here = computer.cpus(4).write("proc/self/cgroup", "0::/").write("sys/fs/cgroup/cpu.max", "150000 100000")
    four = here.surroundings(affinity=(0, 1, 2, 3), stack=replace(STACK, threads=1))
    assert cores.check_threads(four).state == "ok"
    assert outcome(cores.check_threads(replace(four, stack=STACK))) == "threads-over-cores"
    quota = cores.check_quota(four)
    assert outcome(quota) == "quota-below-cores"
    assert "1.5 cores" in quota.seen
    assert "OMP_NUM_THREADS=1" in quota.advice


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", "ok"), ("200000 100000", "ok"), ("199000 100000", "quota-below-cores")]
)
def test_a_quota_that_covers_the_cpus_is_fine(computer: Computer, quota: str, expected: str) -> None:
    here = computer.write("proc/self/cgroup", "0::/").write("sys/fs/cgroup/cpu.max", quota).surroundings()
    assert outcome(cores.check_quota(here)) == expected


@given(period_us=st.integers(1000, 1_000_000), share=st.floats(0.05, 64), cpus=st.integers(1, 64))
def test_the_advised_threads_never_exceed_quota_or_cpus(
    tmp_path_factory: pytest.TempPathFactory, period_us: int, share: float, cpus: int
) -> None:
    computer = Computer(tmp_path_factory.mktemp("computer"))
    computer.write("sys/fs/cgroup/cpu.max", f"{max(1, round(share * period_us))} {period_us}")
    here = computer.surroundings(affinity=tuple(range(cpus)), stack=replace(STACK, threads=1000))
    found = cores.check_threads(here)
    advised = int(found.advice.partition("OMP_NUM_THREADS=")[2].partition(",")[0])
    assert 1 <= advised <= cpus
    assert advised <= max(1, max(1, round(share * period_us)) // period_us)


@pytest.mark.parametrize(("asked", "expected"), [("3", "threads-over-cores"), ("2", "unknown"), ("", "unknown")])
def test_without_torch_only_a_number_that_was_asked_for_is_judged(
    computer: Computer, asked: str, expected: str
) -> None:
    here = computer.cpus(2).surroundings(stack="it did not load", environ={"OMP_NUM_THREADS": asked})
    assert outcome(cores.check_threads(here)) == expected


def test_siblings_are_fine_together_and_a_problem_when_others_have_one(computer: Computer) -> None:
    computer.cpus(4, siblings=lambda cpu: f"{cpu % 2},{cpu % 2 + 2}")
    whole = cores.check_siblings(computer.surroundings(affinity=(0, 1, 2, 3)))
    assert outcome(whole) == "ok"
    assert "4 CPUs are 2 cores" in whole.seen
    half = cores.check_siblings(computer.surroundings(affinity=(0, 1)))
    assert outcome(half) == "core-shared"
    assert "2-3" in half.seen


def test_a_narrow_affinity_names_its_cpus(computer: Computer) -> None:
    computer.cpus(8)
    assert outcome(cores.check_affinity(computer.surroundings(affinity=tuple(range(8))))) == "ok"
    found = cores.check_affinity(computer.surroundings(affinity=(0, 1, 2, 6)))
    assert outcome(found) == "affinity-narrow"
    assert "4 of 8 CPUs (number 0-2, 6)" in found.seen


def test_memory_nodes_count_only_where_this_process_may_run(computer: Computer) -> None:
    for node, members in enumerate(("0-1", "2-3")):
        computer.write(f"sys/devices/system/node/node{node}/cpulist", members)
    assert outcome(cores.check_nodes(computer.surroundings(affinity=(2, 3)))) == "ok"
    assert outcome(cores.check_nodes(computer.surroundings(affinity=(1, 2)))) == "nodes-mixed"


def test_two_openmp_runtimes_clash_and_one_seen_twice_does_not(computer: Computer) -> None:
    assert outcome(cores.check_openmp(computer.surroundings())) == "ok"
    assert outcome(cores.check_openmp(computer.surroundings(stack=replace(STACK, pools=(GNU, GNU))))) == "ok"
    clash = cores.check_openmp(computer.surroundings(stack=replace(STACK, pools=(GNU, INTEL))))
    assert outcome(clash) == "openmp-clash"
    assert GNU.path in clash.seen
    assert INTEL.path in clash.seen


def test_a_blas_with_more_threads_than_cores_is_told_how_to_take_fewer(computer: Computer) -> None:
    pools = (GNU, replace(BLAS, threads=8))
    found = cores.check_pools(computer.cpus(2).surroundings(stack=replace(STACK, pools=pools)))
    assert outcome(found) == "pools-over-cores"
    assert found.advice.startswith("Set OPENBLAS_NUM_THREADS=2 ")
    assert outcome(cores.check_pools(computer.surroundings())) == "ok"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("OMP_PROC_BIND", "true", "threads-bound"),
        ("OMP_PROC_BIND", "close", "threads-bound"),
        ("GOMP_CPU_AFFINITY", "0-3", "threads-bound"),
        ("OMP_PROC_BIND", "FALSE", "ok"),
        ("KMP_AFFINITY", "disabled", "ok"),
    ],
)
def test_binding(computer: Computer, variable: str, value: str, expected: str) -> None:
    assert outcome(cores.check_binding(computer.surroundings(environ={variable: value}))) == expected


@pytest.mark.parametrize(("niceness", "expected"), [(None, "unknown"), (-5, "ok"), (0, "ok"), (10, "low-priority")])
def test_priority(computer: Computer, niceness: int | None, expected: str) -> None:
    assert outcome(cores.check_priority(computer.surroundings(niceness=niceness))) == expected
