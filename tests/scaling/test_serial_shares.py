import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.results.machine import Ceiling
from boundby.scaling.laws import amdahl
from boundby.scaling.serial_shares import serial_shares


def rate(value: float, threads: int, *, spread: float = 0.0, **more) -> Ceiling:
    fields = {"kind": "bandwidth", "name": "read", "unit": "byte/s", "size_bytes": 1 << 20} | more
    return Ceiling(value=value, low=value * (1 - spread), high=value * (1 + spread), threads=threads, **fields)


def seconds(value: float, threads: int, **more) -> Ceiling:
    return rate(value, threads, **{"kind": "function", "name": "exp", "unit": "s", "dtype": "fp32"} | more)


@given(st.floats(0, 1), st.integers(2, 256), st.floats(1e-9, 1e-3))
def test_the_share_of_a_known_law_is_found_from_seconds_and_from_rates(share, threads, time_s):
    faster = amdahl(share, threads)
    for one, many in (
        (seconds(time_s, 1), seconds(time_s / faster, threads)),
        (rate(1 / time_s, 1), rate(faster / time_s, threads)),
    ):
        (found,) = serial_shares([one, many])
        assert found.speedup.value == pytest.approx(faster)
        assert found.serial_share.value == pytest.approx(share, abs=1e-6)


@given(
    st.floats(1e6, 1e12), st.floats(1e6, 1e12), st.integers(2, 64), st.floats(0, 0.5), st.sampled_from([rate, seconds])
)
def test_bands_hold_every_pair_of_ends(first, second, threads, spread, make):
    (found,) = serial_shares([make(first, 1, spread=spread), make(second, threads, spread=spread)])
    assert found.serial_share.low <= found.serial_share.value <= found.serial_share.high
    ends = [(1 + spread) / (1 - spread), (1 - spread) / (1 + spread)]
    assert found.speedup.high == pytest.approx(found.speedup.value * max(ends))
    assert found.speedup.low == pytest.approx(found.speedup.value * min(ends))
    assert math.isfinite(found.serial_share.high)


def test_only_like_is_compared_with_like_and_anchors_are_left_out():
    ceilings = [
        rate(1e9, 1, size_bytes=4096),
        rate(2e9, 2, size_bytes=8192),
        rate(2e9, 2, name="write"),
        rate(2e9, 2, stack="native", size_bytes=4096),
        seconds(1.0, 1, kind="anchor", name="matmul"),
        seconds(0.5, 2, kind="anchor", name="matmul"),
    ]
    assert serial_shares(ceilings) == ()
    assert serial_shares([]) == ()
    assert serial_shares([rate(1e9, 2)]) == ()


def test_several_thread_counts_stand_by_count():
    found = serial_shares([rate(3e9, 4), rate(1e9, 1), rate(2e9, 2)])
    assert [one.many.threads for one in found] == [2, 4]
    assert found[1].serial_share.value == pytest.approx(1 / 9)


def test_no_ratio_is_had_from_nothing():
    assert serial_shares([rate(1e9, 1), rate(2e9, 2, spread=1.0)]) == ()
