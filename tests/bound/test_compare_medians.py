"""The ratio of two medians: what it says of runs whose truth is known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.timing.statistics import compare_medians, mean, median

FLOOR = 0.06
samples = st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=60)


def run(random_: random.Random, *, steps: int, drift: float, noise: float, factor: float = 1.0) -> list[float]:
    """Steps of 1 ms whose speed walks about its mean from step to step, with noise of their own and a few outliers."""
    taken, speed = [], random_.gauss(0, drift)
    for _ in range(steps):
        speed = 0.9 * speed + random_.gauss(0, drift * math.sqrt(1 - 0.9**2))
        outlier = random_.expovariate(1) if random_.random() < 0.05 else 0.0
        taken.append(factor * 1e-3 * math.exp(speed + random_.gauss(0, noise)) * (1 + outlier))
    return taken


@given(samples, samples)
def test_turned_round_it_says_the_inverse(a: list[float], b: list[float]) -> None:
    there, back = compare_medians(a, b, floor=FLOOR), compare_medians(b, a, floor=FLOOR)
    assert there is not None
    assert back is not None
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)
    assert there.high == pytest.approx(1 / back.low)


@given(samples, samples, st.floats(1e-3, 1e3))
def test_a_factor_on_one_side_is_a_factor_on_the_ratio(a: list[float], b: list[float], factor: float) -> None:
    plain, scaled = compare_medians(a, b, floor=FLOOR), compare_medians(a, [factor * one for one in b], floor=FLOOR)
    assert plain is not None
    assert scaled is not None
    for one, other in ((plain.value, scaled.value), (plain.low, scaled.low), (plain.high, scaled.high)):
        assert other == pytest.approx(factor * one, rel=1e-6)


@given(samples, samples)
def test_the_interval_is_never_narrower_than_the_floor(a: list[float], b: list[float]) -> None:
    found = compare_medians(a, b, floor=FLOOR)
    assert found is not None
    assert found.low <= found.value / (1 + FLOOR) * (1 + 1e-9)
    assert found.high >= found.value * (1 + FLOOR) * (1 - 1e-9)
    assert found.value == pytest.approx(median(b) / median(a))


def test_samples_that_agree_leave_the_floor() -> None:
    found = compare_medians([1.0] * 30, [1.04] * 30, floor=FLOOR)
    assert found is not None
    assert (found.low < 1 < found.high) is True
    assert (found.spread_a, found.spread_b) == (0.0, 0.0)
    found = compare_medians([1.0] * 30, [1.07] * 30, floor=FLOOR)
    assert found is not None
    assert found.low > 1


def test_two_samples_say_nothing() -> None:
    assert compare_medians([1.0, 1.0], [2.0] * 50, floor=FLOOR) is None
    assert compare_medians([1.0] * 3, [2.0] * 3, floor=FLOOR) is not None


def test_a_sample_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        compare_medians([1.0, 0.0, 1.0], [1.0] * 3, floor=FLOOR)
    with pytest.raises(ValueError, match="at least one"):
        mean([])


@pytest.mark.parametrize(("steps", "drift", "noise"), [(60, 0.02, 0.03), (30, 0.025, 0.02), (8, 0.02, 0.02)])
def test_of_runs_alike_19_of_20_do_not_differ(steps: int, drift: float, noise: float) -> None:
    random_ = random.Random(7)
    wrong = 0
    for _ in range(300):
        a, b = (run(random_, steps=steps, drift=drift, noise=noise) for _ in range(2))
        found = compare_medians(a, b, floor=FLOOR)
        assert found is not None
        wrong += not found.low <= 1 <= found.high
    assert wrong <= 15


@pytest.mark.parametrize(("steps", "drift", "noise"), [(60, 0.02, 0.03), (30, 0.03, 0.02)])
def test_a_slowdown_of_1_3_is_found(steps: int, drift: float, noise: float) -> None:
    random_ = random.Random(8)
    found = [
        compare_medians(
            run(random_, steps=steps, drift=drift, noise=noise),
            run(random_, steps=steps, drift=drift, noise=noise, factor=1.3),
            floor=FLOOR,
        )
        for _ in range(100)
    ]
    assert sum(one is not None and one.low > 1 for one in found) >= 95


def test_drift_within_a_run_widens_the_interval() -> None:
    steady = [1.0 + 0.01 * (index % 3) for index in range(60)]
    drifting = [one * (1.0 + index / 120) for index, one in enumerate(steady)]
    calm, moved = (compare_medians(one, one, floor=FLOOR) for one in (steady, drifting))
    assert calm is not None
    assert moved is not None
    assert moved.high > 1.5 * (calm.high - 1) + 1


def test_the_mean_counts_rare_long_steps_in_full() -> None:
    a, b = [1.0] * 60, [1.0, 1.0, 1.0, 1.0, 1.0, 11.0] * 10
    by_median, by_mean = (compare_medians(a, b, floor=FLOOR, middle=middle) for middle in (median, mean))
    assert by_median is not None
    assert by_mean is not None
    assert by_median.value == 1.0
    assert by_mean.value == pytest.approx(16 / 6)
