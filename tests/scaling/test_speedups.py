"""Laws fitted to speed-ups: known shares come back, intervals hold what they should, and nothing is too sure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.report.scaling_words import sentence
from boundby.results.interval import interval
from boundby.scaling.laws import amdahl, gustafson, usl, usl_peak
from boundby.scaling.speedups import fit_speedups, law_values, point
from boundby.scaling.summary import scaling_of

COUNTS = (2, 4, 8, 16)
shares = st.floats(0, 1)


def exact(law, counts=COUNTS):
    return [point(n, interval(law(n))) for n in counts]


@given(shares, st.sampled_from([(2,), (4,), (2, 4), COUNTS]))
def test_amdahls_share_comes_back(share, counts):
    fit = fit_speedups(exact(lambda n: amdahl(share, n), counts)).amdahl
    assert fit.serial_share.value == pytest.approx(share, abs=1e-9)
    assert fit.freedom == len(counts) - 1
    assert fit.largest_miss < 1e-9
    assert fit.share_at_most.value == pytest.approx(share * amdahl(share, counts[-1]), abs=1e-9)


@given(st.floats(0, 0.9), st.floats(1e-5, 0.1))
def test_both_parts_of_the_universal_law_come_back_with_the_peak(contention, coherence):
    fit = fit_speedups(exact(lambda n: usl(n, contention, coherence))).usl
    assert fit is not None
    assert fit.contention.value == pytest.approx(contention, abs=1e-7)
    assert fit.coherence.value == pytest.approx(coherence, rel=1e-5)
    assert fit.peak_workers == pytest.approx(usl_peak(contention, coherence), rel=1e-4)


@given(shares, st.floats(0.001, 0.2), st.sampled_from([2, 3, 8, 64]))
def test_one_speedup_gives_karp_flatt_and_its_band_and_says_that_nothing_checks_it(share, half, workers):
    speedup = amdahl(share, workers)
    given_ = point(workers, interval(speedup, speedup * (1 - half), speedup * (1 + half)))
    fits = fit_speedups([given_])
    band, law = given_.serial_share, fits.amdahl
    assert fits.usl is None
    assert law.freedom == 0
    assert law.serial_share.low <= share + 1e-9
    assert share - 1e-9 <= law.serial_share.high
    assert law.serial_share.low == pytest.approx(min(max(band.low, 0), 1))
    assert law.serial_share.high == pytest.approx(min(max(band.high, 0), 1))
    codes = [one.code for one in scaling_of([given_], origin="given").findings]
    assert "scaling-unchecked" in codes


@given(st.lists(st.floats(0.05, 40), min_size=1, max_size=6))
def test_whatever_the_speedups_parts_and_projections_are_in_their_ranges(speedups):
    fits = fit_speedups([point(2 ** (at + 1), interval(value)) for at, value in enumerate(speedups)])
    share = fits.amdahl.serial_share
    assert 0 <= share.low <= share.value <= share.high <= 1
    for workers in (2, 100, 10**6):
        found = fits.project(workers)
        for one in (found.amdahl, found.gustafson, *([found.usl] if found.usl else [])):
            assert 0 < one.low <= one.value <= one.high <= workers * (1 + 1e-9)


@given(shares, st.floats(0.9, 1.1), st.floats(0.9, 1.1))
def test_two_speedups_that_disagree_leave_a_wide_interval(share, first, second):
    agree = fit_speedups(exact(lambda n: amdahl(share, n), (2, 4))).amdahl.serial_share
    noisy = [point(n, interval(amdahl(share, n) * off)) for n, off in ((2, first), (4, second))]
    apart = fit_speedups(noisy).amdahl.serial_share
    assert apart.high - apart.low >= agree.high - agree.low - 1e-9


def test_oversubscribed_counts_are_fitted_by_no_law():
    good = exact(lambda n: amdahl(0.1, n), (2, 4))
    bad = point(8, interval(1.5), oversubscribed=True)
    assert fit_speedups([*good, bad]).amdahl == fit_speedups(good).amdahl
    found = scaling_of([*good, bad], origin="measured", unit="threads")
    assert [one.code for one in found.findings] == ["scaling-oversubscribed"]
    assert [one.workers for one in found.projections] == [8, 16, 32]
    with pytest.raises(ValueError, match="more than one worker"):
        fit_speedups([point(1, interval(1.0)), bad])


@pytest.mark.parametrize(
    ("speedups", "code"),
    [
        ({2: 2.6, 4: 6.0}, "scaling-superlinear"),
        ({2: 0.5}, "scaling-slower"),
        ({2: 1.9, 4: 3.5, 8: 5.0, 16: 3.0}, "scaling-misfit"),
    ],
)
def test_what_no_serial_share_explains_is_said(speedups, code):
    found = scaling_of([point(n, interval(s)) for n, s in speedups.items()], origin="given")
    assert code in [one.code for one in found.findings]


def test_slower_with_more_workers_promises_nothing():
    found = scaling_of([point(1, interval(1.0)), point(2, interval(0.5, 0.45, 0.55))], origin="measured")
    assert found.projections == ()


def test_speedups_that_no_share_describes_promise_nothing():
    found = scaling_of([point(n, interval(s)) for n, s in ((2, 0.3), (4, 1.1))], origin="given")
    assert found.projections == ()
    assert "no serial share describes" in sentence(found)


def test_law_values_are_the_lectures_and_without_bound_where_they_are():
    found = {(one.serial_share, one.workers): one for one in law_values((0.0, 0.01, 1.0), (8, 132, None))}
    assert found[0.01, 132].amdahl == pytest.approx(57.14, abs=0.01)
    assert found[0.01, 132].gustafson == pytest.approx(gustafson(0.01, 132))
    assert found[0.01, None].amdahl == pytest.approx(100)
    assert found[0.01, None].gustafson is None
    assert found[0.0, None].amdahl is None
    assert found[1.0, None].gustafson == found[1.0, 8].amdahl == 1
    assert math.isclose(found[0.0, 8].amdahl or 0, 8)
