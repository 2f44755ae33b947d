"""From where to where an axis goes: all values with their bands, some room around them, and 0 where bars begin."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from boundby.report.chart import Axis, Chart
from boundby.report.chart_words import Side, value_side

_ROOM = 0.05
# Marks are large themselves.
_ROOM_FOR_MARKS = 0.1
# On a logarithmic axis that holds a single value, this factor on either side.
_LOG_ROOM = 1.2
# A linear axis begins at 0 unless all values lie in the upper part of what that would show.
_FAR_FROM_ZERO = 0.6
# Shares that sum to nearly the whole, or by rounding to a little more, are shown against the whole.
_NEARLY_ALL, _ROUNDING = 0.9, 1e-9


def drawable(axis: Axis, value: float) -> bool:
    """Whether a value has a place on an axis: it is a number, and clearly above 0 where the axis is logarithmic.

    Denormal numbers have no room around them: no end of an axis could lie below.
    """
    return math.isfinite(value) and (axis.scale != "log" or value >= sys.float_info.min)


def axis_range(chart: Chart, side: Side) -> tuple[float, float]:
    """The ends of an axis, the lower first.

    Args:
        chart: what is drawn.
        side: which of its axes.
    """
    axis = chart.x if side == "x" else chart.y
    if axis.scale == "category":
        return -0.5, max(len(axis.categories), 1) - 0.5
    values = [value for value in _values(chart, side) if drawable(axis, value)]
    if not values:
        return (0.1, 10.0) if axis.scale == "log" else (0.0, 1.0)
    low, high = min(values), max(values)
    share = _ROOM_FOR_MARKS if chart.marks else _ROOM
    if axis.scale == "log":
        return _log_range(low, high, share)
    whole = axis.unit == "%" and low >= 0 and _NEARLY_ALL < high <= 1.0 + _ROUNDING
    return _linear_range(low, 1.0 if whole else high, share, ends_there=whole)


def _log_range(low: float, high: float, share: float) -> tuple[float, float]:
    factor = _LOG_ROOM if high == low else (high / low) ** share
    if not math.isfinite(factor):
        factor = _LOG_ROOM
    return max(low / factor, sys.float_info.min), min(high * factor, sys.float_info.max)


def _linear_range(low: float, high: float, share: float, *, ends_there: bool) -> tuple[float, float]:
    from_zero = 0 <= low < _FAR_FROM_ZERO * high
    to_zero = _FAR_FROM_ZERO * low < high <= 0
    low, high = 0.0 if from_zero else low, 0.0 if to_zero else high
    room = max(share * ((high - low) or abs(high) or 1.0), sys.float_info.min)
    return low if from_zero else low - room, high if to_zero or ends_there else high + room


def _values(chart: Chart, side: Side) -> Iterator[float]:
    across = side == "x"
    for line in chart.lines:
        yield from line.x if across else (*line.y, *(line.low or ()), *(line.high or ()))
    for mark in chart.marks:
        yield mark.x if across else mark.y
    if side == value_side(chart):
        for bar in chart.bars:
            yield from (bar.start, bar.start + bar.value)
            yield from (bar.start + end for end in (bar.low, bar.high) if end is not None)
