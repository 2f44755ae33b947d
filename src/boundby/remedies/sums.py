"""Sums that predictions are made of: of intervals, and of what is known of a step."""

from __future__ import annotations

from collections.abc import Iterable

from boundby.results.interval import Interval, interval
from boundby.results.report import Report

# Where less of a step than this is accounted for, what is known of the rest says nothing of the whole.
LEAST_KNOWN = 0.3


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


def known_share(report: Report) -> float:
    """The share of the step that ops, host code and waiting for input account for; 0 where the run was disturbed.

    Args:
        report: the report.
    """
    return sum(row.share for row in report.ops) + report.overhead_parts.host + report.split.input.value
