"""Where bars of one category lie beside each other: those that overlap have lanes of their own, others share one."""

from __future__ import annotations

from dataclasses import dataclass

from boundby.report.chart import Bar, Chart
from boundby.report.chart_words import category_axis

# Of the distance between two categories, what their bars take.
_FILLED = 0.74
# Bars that follow one another may overlap by rounding.
_TOUCHING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """The ends of each bar across its category, where categories are 1 apart, and the most lanes that one has."""

    places: tuple[tuple[float, float], ...]
    most: int


def bar_lanes(chart: Chart) -> Lanes:
    """The lanes of a chart's bars: the first one in which a bar overlaps no earlier bar of its category.

    Args:
        chart: whose bars are placed, in their order.
    """
    taken: dict[str, list[list[tuple[float, float]]]] = {}
    lanes = [_lane(taken.setdefault(bar.category, []), _span(bar)) for bar in chart.bars]
    most = max(map(len, taken.values()), default=1)
    width = _FILLED / most
    categories = category_axis(chart).categories
    places = []
    for bar, lane in zip(chart.bars, lanes, strict=True):
        first = categories.index(bar.category) + (lane - len(taken[bar.category]) / 2) * width
        places.append((first, first + width))
    return Lanes(places=tuple(places), most=most)


def _lane(lanes: list[list[tuple[float, float]]], span: tuple[float, float]) -> int:
    low, high = span
    room = _TOUCHING * (high - low)
    for place, others in enumerate(lanes):
        if all(high <= other[0] + room or low >= other[1] - room for other in others):
            others.append(span)
            return place
    lanes.append([span])
    return len(lanes) - 1


def _span(bar: Bar) -> tuple[float, float]:
    ends = (bar.start, bar.start + bar.value)
    return min(ends), max(ends)
