"""A trend is told from noise by every pair of samples, whatever single samples do."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.timing.growth import trend

AT = [float(one) for one in range(40)]


def test_a_straight_line_has_its_slope_for_sure():
    found = trend(AT, [3.0 + 0.25 * one for one in AT])
    assert found is not None
    assert (found.slope, found.low, found.high) == (0.25, 0.25, 0.25)
    # All 780 pairs rise: 780 over sqrt(40 x 39 x 85 / 18).
    assert found.z == pytest.approx(780 / math.sqrt(40 * 39 * 85 / 18))


def test_single_samples_far_off_do_not_move_it():
    values = [3.0 + 0.25 * one for one in AT]
    values[5] = values[20] = 1e6
    found = trend(AT, values)
    assert found is not None
    assert found.slope == pytest.approx(0.25)
    assert found.low <= 0.25 <= found.high


def test_noise_alone_seldom_has_a_sign():
    rises = 0
    for seed in range(200):
        rng = random.Random(seed)
        found = trend(AT, [1.0 + rng.gauss(0, 0.1) for _ in AT])
        assert found is not None
        rises += found.low > 0
    # 99% two-sided: one in 200 expected.
    assert rises <= 5


def test_the_interval_holds_the_slope_of_noisy_lines():
    held = 0
    for seed in range(100):
        rng = random.Random(seed)
        found = trend(AT, [1.0 + 0.01 * one + rng.gauss(0, 0.1) for one in AT])
        assert found is not None
        held += found.low <= 0.01 <= found.high
    assert held >= 95


@pytest.mark.parametrize("at", [[], [1.0, 2.0, 3.0], [1.0] * 10])
def test_too_few_samples_have_no_trend(at):
    assert trend(at, at) is None


@given(
    st.lists(st.floats(1e-6, 1e3), min_size=4, max_size=60),
    st.floats(0.5, 100),
)
def test_slope_lies_in_its_interval_and_scales_with_the_values(values, factor):
    at = [float(one) for one in range(len(values))]
    found, scaled = trend(at, values), trend(at, [factor * one for one in values])
    assert found is not None
    assert scaled is not None
    assert found.low <= found.slope <= found.high
    assert scaled.slope == pytest.approx(factor * found.slope, rel=1e-6, abs=1e-9)
