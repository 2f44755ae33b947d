"""Fits of time against size on made-up times: exact where the times are, honest where they are not."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.scaling.fits import fit_growth

SIZES = (1, 2, 4, 8, 16, 32, 64)


def times(fixed: float, each: float, power: int = 1, sizes=SIZES) -> list[tuple[float, float]]:
    return [(n, fixed + each * n**power) for n in sizes]


def test_exact_times_give_the_exact_parts():
    fit = fit_growth(times(2e-3, 5e-5))
    assert fit.power == 1
    assert fit.fixed_s.value == pytest.approx(2e-3)
    assert fit.each_s.value == pytest.approx(5e-5)
    assert fit.rate_per_s.value == pytest.approx(20_000)
    # Hockney: t = (n + n_1/2) / r.
    assert fit.half_at.value == pytest.approx(40)
    assert fit.half_at.low == pytest.approx(40)
    assert fit.largest_miss < 1e-9
    assert fit.time_s(40) == pytest.approx(2 * 2e-3)


@pytest.mark.parametrize("power", [2, 3])
def test_the_power_is_found_where_time_grows_faster(power):
    fit = fit_growth(times(1e-3, 1e-6, power))
    assert fit.power == power
    assert fit.fixed_s.value == pytest.approx(1e-3)
    assert fit.half_at.value == pytest.approx(1000 ** (1 / power))


def test_a_power_that_is_asked_for_is_taken():
    assert fit_growth(times(1e-3, 1e-6, 2), power=1).power == 1


@given(
    st.floats(1e-7, 1.0),
    st.floats(1e-9, 1e-2),
    st.sampled_from([1, 2, 3]),
    st.lists(st.integers(1, 4096), min_size=4, max_size=9, unique=True),
)
def test_exact_times_are_found_again_whatever_the_parts(fixed, each, power, sizes):
    # Parts a million times apart cannot be told from rounding.
    growing = [each * n**power for n in sizes]
    if not 1e-4 < fixed / max(growing) < 1e4 or max(growing) / min(growing) < 2:
        return
    fit = fit_growth(times(fixed, each, power, sizes), power=power)
    assert fit.fixed_s.value == pytest.approx(fixed, rel=1e-3)
    assert fit.each_s.value == pytest.approx(each, rel=1e-3)


@given(st.floats(1e-3, 1e3))
def test_another_unit_of_time_changes_the_unit_alone(factor):
    noisy = [(n, t * (1.1 if n % 3 else 0.95)) for n, t in times(1e-3, 1e-4)]
    one, other = fit_growth(noisy), fit_growth([(n, factor * t) for n, t in noisy])
    assert other.fixed_s.high == pytest.approx(factor * one.fixed_s.high)
    assert other.half_at.value == pytest.approx(one.half_at.value)
    assert other.largest_miss == pytest.approx(one.largest_miss)


def test_intervals_hold_the_truth_about_19_times_of_20():
    chance = random.Random(5)
    held = [0, 0, 0]
    rounds = 400
    for _ in range(rounds):
        noisy = [(n, t * math.exp(chance.gauss(0, 0.03))) for n, t in times(1e-3, 1e-4)]
        fit = fit_growth(noisy, power=1)
        for at, (band, truth) in enumerate(((fit.fixed_s, 1e-3), (fit.each_s, 1e-4), (fit.half_at, 10.0))):
            held[at] += band.low <= truth <= band.high
    assert all(0.91 * rounds <= one <= 0.99 * rounds for one in held), held


def test_no_fixed_cost_is_zero_and_not_less():
    fit = fit_growth([(1, 0.9), (2, 2.0), (4, 4.2), (8, 8.8)], power=1)
    assert fit.fixed_s.value == 0.0
    assert fit.fixed_s.high > 0.0
    assert fit.half_at.value == 0.0
    assert fit.half_at.high > 0.0


def test_time_that_does_not_grow_has_no_rate():
    for flat in ([(1, 1.0), (2, 1.0), (4, 1.0)], [(1, 1.0), (2, 0.99), (4, 1.01), (8, 0.98)]):
        fit = fit_growth(flat)
        assert fit.rate_per_s is None
        assert fit.half_at is None
        assert fit.fixed_s.value == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(
    "points", [[], [(1, 1.0), (2, 2.0)], [(1, 1.0)] * 5, [(0, 1.0), (1, 2.0), (2, 3.0)], [(1, 1.0), (2, 0.0), (3, 1.0)]]
)
def test_what_cannot_be_fitted_is_refused(points):
    with pytest.raises(ValueError, match="at least 3"):
        fit_growth(points)
