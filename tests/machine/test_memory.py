import subprocess
import sys

import pytest

from boundby.machine.bandwidth import working_sets
from boundby.machine.memory import memory_allowance, memory_bound, memory_findings, peak_memory


@pytest.mark.parametrize(("available", "most"), [(None, 2 << 30), (64 << 30, 2 << 30), (4 << 30, 1 << 30)])
def test_the_bound_is_2_gib_or_a_quarter(available, most):
    assert memory_bound(available) == most
    assert memory_allowance(available) < most


def test_little_memory_leaves_little_data_and_never_none():
    for available in (256 << 20, 1 << 30, 2 << 30):
        assert memory_allowance(available) == 32 << 20


def test_a_claimed_500_mb_cache_in_1_gb_of_memory_leaves_the_sweep_small():
    # The sweep asks memory only; what the system says of caches is not read.
    assert max(working_sets(memory_allowance(1 << 30) // 4)) <= 8 << 20


def test_the_peak_is_read_from_the_processs_own_status(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(
        "Name:\tpython\nVmPeak:\t 9000 kB\nVmHWM:\t  223536 kB\nVmRSS:\t 10 kB\n"
    )
    assert peak_memory(tmp_path) == 223536 * 1024


def test_without_a_status_the_peak_is_that_of_getrusage(tmp_path):
    peak = peak_memory(tmp_path)
    assert peak is not None
    assert 1 << 20 < peak < 1 << 40


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the count of the process itself is Linux's")
def test_the_memory_of_the_process_that_started_it_is_not_counted():
    big = bytearray(300 << 20)
    code = "from boundby.machine.memory import peak_memory; print(peak_memory())"
    peak = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert peak < len(big)


def test_too_much_memory_is_said():
    assert memory_findings(900 << 20, 8 << 30) == ()
    assert memory_findings(None, 1 << 30) == ()
    (finding,) = memory_findings(500 << 20, 1 << 30)
    assert finding.code == "memory-over-bound"
    assert "500 MiB" in finding.message
    assert "256 MiB" in finding.message
