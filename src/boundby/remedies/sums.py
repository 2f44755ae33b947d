"""Sums of intervals that predictions are made of."""

from __future__ import annotations

from collections.abc import Iterable

from boundby.results.interval import Interval, interval


def weighted_sum(parts: Iterable[tuple[float, Interval]]) -> Interval:
    """Weights times intervals, summed; low and high as if all were off to the same side.

    Args:
        parts: (weight, interval), weights not negative.
    """
    value = low = high = 0.0
    for weight, one in parts:
        value += weight * one.value
        low += weight * one.low
        high += weight * one.high
    return interval(value, low, high)
