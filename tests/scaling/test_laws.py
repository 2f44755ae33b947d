import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.scaling.laws import amdahl, gustafson, karp_flatt, usl, usl_peak

shares = st.floats(0, 1)
worker_counts = st.floats(1, 1e6)
GPU_COUNTS = (8, 132, 16_896, 135_168)


# The lecture's table: an H100 has 132 SMs and 16,896 FP32 lanes, and eight of them 135,168.
@pytest.mark.parametrize(
    ("share", "fixed", "limit", "growing"),
    [
        (0.01, (7, 57, 99, 100), 100, (8, 131, 16_727, 133_816)),
        (0.001, (8, 117, 944, 993), 1_000, (8, 132, 16_879, 135_033)),
        (0.0001, (8, 130, 6_282, 9_311), 10_000, (8, 132, 16_894, 135_154)),
    ],
)
def test_the_lectures_values(share, fixed, limit, growing):
    assert tuple(round(amdahl(share, n)) for n in GPU_COUNTS) == fixed
    assert round(amdahl(share, math.inf)) == limit
    assert tuple(round(gustafson(share, n)) for n in GPU_COUNTS) == growing


@given(shares, worker_counts)
def test_speedups_lie_between_one_and_the_workers(share, workers):
    for law in (amdahl, gustafson):
        assert 1 - 1e-9 <= law(share, workers) <= workers * (1 + 1e-9)
    assert amdahl(share, workers) <= gustafson(share, workers) * (1 + 1e-9)


@given(shares, st.floats(1.5, 1e4))
def test_karp_flatt_finds_the_share_that_amdahl_was_given(share, workers):
    assert karp_flatt(amdahl(share, workers), workers) == pytest.approx(share, abs=1e-9)


@given(shares, st.floats(1, 1e4))
def test_without_coherence_the_universal_law_is_amdahls(share, workers):
    assert usl(workers, share, 0.0) == pytest.approx(amdahl(share, workers))


@given(st.floats(0, 0.9), st.floats(1e-6, 0.5), st.floats(1.01, 3))
def test_the_universal_law_is_highest_at_its_peak(contention, coherence, factor):
    peak = usl_peak(contention, coherence)
    best = usl(peak, contention, coherence)
    assert usl(peak * factor, contention, coherence) <= best * (1 + 1e-9)
    assert usl(max(1.0, peak / factor), contention, coherence) <= best * (1 + 1e-9)


def test_what_did_not_scale_has_a_share_beyond_0_and_1():
    assert karp_flatt(2.0, 4) == pytest.approx(1 / 3)
    assert karp_flatt(4.5, 4) < 0
    assert karp_flatt(0.5, 4) > 1
    assert amdahl(0.0, math.inf) == gustafson(0.0, math.inf) == math.inf
    assert gustafson(1.0, math.inf) == 1
    assert usl_peak(0.1, 0.0) == math.inf


@pytest.mark.parametrize(
    ("law", "arguments"),
    [
        (amdahl, (-0.1, 2)),
        (amdahl, (1.1, 2)),
        (amdahl, (math.nan, 2)),
        (gustafson, (0.1, 0.5)),
        (gustafson, (0.1, math.nan)),
        (karp_flatt, (0.0, 2)),
        (karp_flatt, (math.inf, 2)),
        (karp_flatt, (1.0, 1)),
        (usl, (0, 0.1, 0.0)),
        (usl, (math.inf, 0.1, 0.0)),
        (usl, (2, 0.1, -1.0)),
        (usl_peak, (2.0, 0.0)),
    ],
)
def test_arguments_out_of_range_are_refused(law, arguments):
    with pytest.raises(ValueError, match="got"):
        law(*arguments)
