import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.machine.describe import process_affinity
from boundby.machine.other_load import (
    LEAST_CORES,
    ProcessorUse,
    beside_load,
    cores_of_others,
    load_findings,
    read_use,
)
from boundby.results.machine import Ceiling


def use(wall_s: float, busy_s: float, own_s: float) -> ProcessorUse:
    return ProcessorUse(wall_s=wall_s, busy_s=busy_s, own_s=own_s)


def stream(size_bytes: int, **more) -> Ceiling:
    return Ceiling(
        kind="bandwidth",
        name="read",
        threads=2,
        size_bytes=size_bytes,
        value=10.0,
        low=9.0,
        high=11.0,
        unit="byte/s",
        **more,
    )


OVERHEAD = Ceiling(kind="overhead", name="view", threads=2, value=10.0, low=9.0, high=11.0, unit="s")


def test_others_have_what_was_busy_beyond_ones_own():
    assert cores_of_others(use(0, 0, 0), use(10, 15, 5)) == 1.0
    assert cores_of_others(use(0, 100, 50), use(10, 110, 60)) == 0.0
    # The system counts coarsely: its own part may come out larger than all.
    assert cores_of_others(use(0, 0, 0), use(10, 9.9, 10)) == 0.0
    assert cores_of_others(use(0, 0, 0), use(0.05, 0.1, 0)) == 0.0


def test_load_is_told_from_a_third_of_a_core_on():
    assert load_findings(LEAST_CORES - 0.01, 2) == ()
    (found,) = load_findings(1.04, 2)
    assert found.code == "machine-busy"
    assert "1.0 of 2 CPUs" in found.message


def test_without_load_bands_stay():
    ceilings = (stream(64 << 20), OVERHEAD)
    assert beside_load(ceilings, 0.1, 2) == ceilings


def test_memory_may_be_faster_by_the_part_that_others_had_and_other_things_by_little():
    memory, cached, overhead = beside_load((stream(64 << 20), stream(64 << 10), OVERHEAD), 1.0, 2)
    assert (memory.low, memory.value, memory.high) == (9.0, 10.0, 22.0)
    assert cached.high == pytest.approx(11.0 * 1.05)
    assert overhead.low == pytest.approx(9.0 / 1.05)
    assert overhead.high == 11.0


@given(st.floats(0, 1000), st.integers(1, 256), st.sampled_from([4 << 10, 4 << 20, 1 << 30]))
def test_bands_only_widen_and_to_a_bound(others, cpus, size):
    (one,) = beside_load((stream(size),), others, cpus)
    assert (one.low, one.value) == (9.0, 10.0)
    assert 11.0 <= one.high <= 33.0


def test_anchors_are_readings_of_the_moment():
    anchor = Ceiling(kind="anchor", name="memory", threads=2, value=1.0, low=1.0, high=1.0, unit="s")
    assert beside_load((anchor,), 2.0, 2) == (anchor,)


def test_a_real_busy_process_on_the_same_cpus_is_seen():
    cpus = process_affinity()
    busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None
        busy.stdout.readline()
        before = read_use(cpus)
        time.sleep(0.6)
        others = cores_of_others(before, read_use(cpus))
    finally:
        busy.kill()
        busy.communicate()
    assert LEAST_CORES <= others <= (os.cpu_count() or 1) + 0.1
