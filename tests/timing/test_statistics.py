import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.timing.statistics import band, median, median_error, quantile, spread, summarise

positive = st.lists(st.floats(min_value=1e-9, max_value=1e6), min_size=1, max_size=50)


@given(positive, st.floats(0, 1))
def test_a_quantile_lies_within_the_samples_and_does_not_depend_on_their_order(samples, share):
    assert min(samples) <= quantile(samples, share) <= max(samples)
    assert quantile(samples, share) == quantile(samples[::-1], share)


@given(positive, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_grow_with_their_share(samples, one, other):
    low, high = sorted((one, other))
    assert quantile(samples, low) <= quantile(samples, high) * (1 + 1e-12)


@given(positive, st.floats(min_value=1e-3, max_value=1e3))
def test_a_change_of_unit_changes_the_median_alike_and_the_spread_not_at_all(samples, factor):
    scaled = [factor * sample for sample in samples]
    assert math.isclose(median(scaled), factor * median(samples), rel_tol=1e-9)
    assert math.isclose(spread(scaled), spread(samples), rel_tol=1e-9)


@given(positive)
def test_a_summary_is_ordered(samples):
    summary = summarise(samples)
    assert summary.minimum <= summary.low <= summary.median * (1 + 1e-12)
    assert summary.median <= summary.high * (1 + 1e-12)
    assert summary.count == len(samples)
    assert summary.unsteady == (summary.spread > 1.25)


def test_known_values():
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([1.0, 2.0, 3.0, 4.0]) == 2.5
    assert band([float(value) for value in range(11)]) == (1.0, 9.0)
    assert not summarise([1.0, 1.2, 1.2]).unsteady
    assert summarise([1.0, 1.3, 1.4]).unsteady


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_outside_0_and_1_is_refused(share):
    with pytest.raises(ValueError, match="within 0 and 1"):
        quantile([1.0], share)


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="at least one sample"):
        median([])
    with pytest.raises(ValueError, match="positive"):
        spread([0.0, 1.0])


def test_the_error_of_a_median_shrinks_with_the_root_of_the_samples() -> None:
    four = [1.0, 2.0, 3.0, 4.0]
    assert median_error(four) == pytest.approx(1.25 * 1.5 / 1.35 / 2)
    assert median_error([2.0] * 9) == 0.0
    # Too few to have a middle half: all of what they differ by.
    assert median_error([1.0, 4.0]) == 3.0
    assert median_error([1.0]) == 0.0
