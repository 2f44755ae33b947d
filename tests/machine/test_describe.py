from pathlib import Path

import pytest

from boundby.machine.describe import (
    available_memory,
    cpu_model,
    cpu_quota,
    describe_machine,
    memory_limit,
    relevant_environment,
    threads_findings,
    usable_cores,
)
from boundby.machine.measure import memory_allowance


@pytest.fixture
def write(tmp_path):
    def write_file(path: str, text: str) -> Path:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return tmp_path

    return write_file


def test_a_quota_of_one_and_a_half_cores_is_one_core_v2(write, tmp_path):
    write("proc/self/cgroup", "0::/\n")
    write("sys/fs/cgroup/cpu.max", "150000 100000\n")
    assert cpu_quota(tmp_path) == 1.5
    assert usable_cores(root=tmp_path, affinity=(0, 1, 2, 3)) == 1


def test_a_quota_of_one_and_a_half_cores_is_one_core_v1(write, tmp_path):
    write("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/jobs/7\n")
    write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "150000\n")
    write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us", "100000\n")
    assert cpu_quota(tmp_path) == 1.5
    assert usable_cores(root=tmp_path, affinity=(0, 1, 2, 3)) == 1


@pytest.mark.parametrize("text", ["max 100000\n", "", "nonsense\n", "100000 0\n"])
def test_no_quota_or_an_unreadable_one_limits_nothing(write, tmp_path, text):
    write("sys/fs/cgroup/cpu.max", text)
    assert cpu_quota(tmp_path) is None
    assert usable_cores(root=tmp_path, affinity=(0, 1, 2)) == 3


def test_no_quota_v1_is_minus_one(write, tmp_path):
    write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert cpu_quota(tmp_path) is None


def test_the_tightest_group_on_the_way_up_holds(write, tmp_path):
    write("proc/self/cgroup", "0::/user/job\n")
    write("sys/fs/cgroup/user/job/cpu.max", "max 100000\n")
    write("sys/fs/cgroup/user/cpu.max", "200000 100000\n")
    write("sys/fs/cgroup/user/job/memory.max", "4000000000\n")
    write("sys/fs/cgroup/user/memory.max", "1000000000\n")
    assert cpu_quota(tmp_path) == 2.0
    assert memory_limit(tmp_path) == 1_000_000_000


def test_a_quota_under_one_core_is_still_one_core(write, tmp_path):
    write("sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert usable_cores(root=tmp_path, affinity=(0,)) == 1


def test_siblings_of_one_core_count_once(write, tmp_path):
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{siblings}\n")
    assert usable_cores(root=tmp_path, affinity=(0, 1, 2, 3)) == 2
    assert usable_cores(root=tmp_path, affinity=(0, 2)) == 1


def test_an_affinity_of_one_cpu_is_one_core_and_two_threads_on_it_are_diagnosed(tmp_path):
    described = describe_machine(threads=2, root=tmp_path, affinity=[0])
    assert described.usable_cores == 1
    assert [finding.code for finding in threads_findings(described)] == ["threads-over-cores"]
    assert threads_findings(describe_machine(threads=1, root=tmp_path, affinity=[0])) == ()


def test_memory_without_a_limit_is_unknown_not_huge(write, tmp_path):
    assert memory_limit(tmp_path) is None
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit(tmp_path) is None
    write("sys/fs/cgroup/memory.max", "max\n")
    assert memory_limit(tmp_path) is None


def test_the_limit_bounds_what_is_available(write, tmp_path):
    write("proc/meminfo", "MemTotal:  16000000 kB\nMemAvailable:   8000000 kB\n")
    assert available_memory(tmp_path) == 8_000_000 * 1024
    write("sys/fs/cgroup/memory.max", "1073741824\n")
    assert available_memory(tmp_path) == 1 << 30


def test_what_others_of_the_group_hold_is_not_available_but_files_lying_idle_are(write, tmp_path):
    write("sys/fs/cgroup/memory.max", f"{1 << 30}\n")
    write("sys/fs/cgroup/memory.current", f"{700 << 20}\n")
    assert available_memory(tmp_path) == 324 << 20
    write("sys/fs/cgroup/memory.stat", f"anon 1\ninactive_file {200 << 20}\n")
    assert available_memory(tmp_path) == 524 << 20
    assert memory_limit(tmp_path) == 1 << 30


def test_a_group_above_may_leave_less_than_the_own_one(write, tmp_path):
    write("proc/self/cgroup", "0::/jobs/7\n")
    write("sys/fs/cgroup/jobs/7/memory.max", f"{2 << 30}\n")
    write("sys/fs/cgroup/jobs/7/memory.current", f"{100 << 20}\n")
    write("sys/fs/cgroup/jobs/memory.max", f"{4 << 30}\n")
    write("sys/fs/cgroup/jobs/memory.current", f"{(4 << 30) - (1 << 28)}\n")
    assert available_memory(tmp_path) == 1 << 28


def test_version_1_groups_count_alike(write, tmp_path):
    write("proc/self/cgroup", "4:memory:/a\n")
    write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", f"{1 << 30}\n")
    write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", f"{600 << 20}\n")
    write("sys/fs/cgroup/memory/a/memory.stat", f"total_inactive_file {100 << 20}\n")
    assert available_memory(tmp_path) == 524 << 20


@pytest.mark.parametrize(("limited", "counted"), [("address space", "VmSize"), ("data size", "VmData")])
def test_the_processs_own_limits_leave_what_it_has_not_taken(write, tmp_path, limited, counted):
    write("proc/meminfo", "MemAvailable:   8000000 kB\n")
    write("proc/self/status", f"{counted}:\t  524288 kB\n")
    write("proc/self/limits", f"Max {limited}         unlimited            unlimited            bytes\n")
    assert available_memory(tmp_path) == 8_000_000 * 1024
    write("proc/self/limits", f"Max {limited}         {1 << 30}           unlimited            bytes\n")
    assert available_memory(tmp_path) == 512 << 20


def test_cpus_of_one_short_name_are_told_apart(write, tmp_path):
    write(
        "proc/cpuinfo", "processor : 0\ncpu family : 25\nmodel : 17\nmodel name : AMD EPYC\nstepping : 1\n\nmodel : 9\n"
    )
    assert cpu_model(tmp_path) == "AMD EPYC (family 25, model 17, stepping 1)"


def test_this_machine_is_described():
    described = describe_machine(threads=1)
    assert described.usable_cores >= 1
    assert described.torch is not None
    assert described.python.count(".") == 2


def test_only_the_environment_that_matters_is_kept():
    environ = {"OMP_NUM_THREADS": "2", "HOME": "/", "MALLOC_ARENA_MAX": "1", "MKL_DYNAMIC": "0", "SECRET": "x"}
    assert relevant_environment(environ) == {"MALLOC_ARENA_MAX": "1", "MKL_DYNAMIC": "0", "OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize("available", [None, 1 << 28, 1 << 30, 1 << 34, 1 << 40])
def test_probes_never_ask_for_more_than_a_quarter_of_memory(available):
    allowance = memory_allowance(available)
    assert 0 < allowance < 2 << 30
    if available is not None and available >= 2 << 30:
        assert allowance <= available / 4
