"""Where things lie in a chart: within its axes, bars beside each other, and said where there is no place for them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.report.chart import Axis, Bar, Chart, Line, Mark, Scale
from boundby.report.html.chart_data import chart_data, group_colors
from boundby.report.html.lanes import bar_lanes
from boundby.report.html.ranges import axis_range, drawable

ANY = st.floats(min_value=-1e15, max_value=1e15, allow_nan=False)
FINITE = st.one_of(ANY, st.sampled_from([0.0, 1.0, 1e-9, 1e-300]))


def chart_of(values: list[float], scale: Scale, unit: str = "") -> Chart:
    axis = Axis(name="a", scale=scale, unit=unit)
    return Chart(
        name="c", title="", summary="", x=axis, y=Axis(name="b"), marks=tuple(Mark(x=one, y=1.0) for one in values)
    )


@given(st.lists(FINITE, min_size=1, max_size=8), st.sampled_from(["linear", "log"]), st.sampled_from(["", "%", "s"]))
def test_every_value_that_can_be_drawn_lies_within_its_axis(values: list[float], scale: Scale, unit: str) -> None:
    chart = chart_of(values, scale, unit)
    start, end = axis_range(chart, "x")
    assert math.isfinite(start)
    assert math.isfinite(end)
    assert start < end
    assert scale != "log" or start > 0
    assert all(start <= one <= end for one in values if drawable(chart.x, one))


def test_an_axis_begins_at_nought_unless_that_would_hide_what_differs() -> None:
    def linear(*values: float) -> tuple[float, float]:
        chart = chart_of(list(values), "linear")
        return axis_range(chart, "x")

    assert linear(1.0, 10.0)[0] == 0
    assert linear(90.0, 100.0)[0] > 80
    low, high = linear(-1.0, 1.0)
    assert low < -1
    assert high > 1


def test_both_sides_may_have_one_axis() -> None:
    axis = Axis(name="a")
    chart = Chart(name="c", title="", summary="", x=axis, y=axis, marks=(Mark(x=5.0, y=-3.0),))
    for side, value in (("x", 5.0), ("y", -3.0)):
        start, end = axis_range(chart, side)
        assert start < value < end


def test_near_values_fill_a_logarithmic_axis() -> None:
    start, end = axis_range(chart_of([1.01, 1.03], "log"), "x")
    assert 1.0 < start < 1.01
    assert 1.03 < end < 1.04


def test_shares_end_at_the_whole() -> None:
    chart = chart_of([0.1, 1.0], "linear", "%")
    assert axis_range(chart, "x") == (0.0, 1.0)


def test_what_has_no_place_is_told_and_stands_in_the_table() -> None:
    chart = chart_of([0.0, -1.0, math.nan, 5.0], "log")
    assert "3 points have no place" in chart_data(chart, group_colors([chart])).undrawn
    assert chart_data(chart_of([1.0], "log"), {"": 0}).undrawn == ""
    gone = chart_of([0.0], "log")
    assert "1 point has no place" in chart_data(gone, group_colors([gone])).undrawn


def test_bands_and_bars_on_a_logarithmic_axis_begin_where_it_does() -> None:
    values = Axis(name="v", scale="log")
    line = Line(name="l", x=(1, 2), y=(1, 10), low=(0, 5), high=(2, math.inf))
    chart = Chart(name="c", title="", summary="", x=Axis(name="x"), y=values, lines=(line,))
    drawn = json.loads(chart_data(chart, {"": 0}).json)
    assert drawn["lines"][0]["low"] == [drawn["y"]["start"], 5]
    assert drawn["lines"][0]["high"] == [2, None]
    kinds = Axis(name="k", scale="category", categories=("a",))
    bars = Chart(name="c", title="", summary="", x=kinds, y=values, bars=(Bar(category="a", value=3.0),))
    drawn = json.loads(chart_data(bars, {"": 0}).json)
    assert drawn["bars"][0]["start"] == drawn["y"]["start"] < drawn["bars"][0]["end"] == 3


SPANS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12)


@given(SPANS)
def test_bars_lie_on_no_other_and_within_their_category(spans: list[tuple[str, int, int]]) -> None:
    bars = tuple(Bar(category=category, start=start, value=value) for category, start, value in spans)
    axis = Axis(name="k", scale="category", categories=("a", "b", "c"))
    chart = Chart(name="c", title="", summary="", x=Axis(name="v"), y=axis, bars=bars)
    places = bar_lanes(chart).places
    for bar, (low, high) in zip(bars, places, strict=True):
        middle = "abc".index(bar.category)
        assert middle - 0.5 < low < high < middle + 0.5
    for one in range(len(bars)):
        for other in range(one):
            beside = places[one][0] >= places[other][1] - 1e-9 or places[other][0] >= places[one][1] - 1e-9
            first, second = bars[one], bars[other]
            apart = first.start + first.value <= second.start or second.start + second.value <= first.start
            assert beside or apart


def test_bars_that_follow_one_another_share_a_lane_whatever_rounding_does() -> None:
    axis = Axis(name="k", scale="category", categories=("a",))
    start, bars = 0.0, []
    for _ in range(30):
        bars.append(Bar(category="a", start=start, value=0.1))
        start += 0.1
    chart = Chart(name="c", title="", summary="", x=Axis(name="v"), y=axis, bars=tuple(bars))
    assert bar_lanes(chart).most == 1


def test_a_category_that_the_axis_does_not_have_is_an_error() -> None:
    axis = Axis(name="k", scale="category", categories=("a",))
    chart = Chart(name="c", title="", summary="", x=Axis(name="v"), y=axis, bars=(Bar(category="b", value=1.0),))
    with pytest.raises(ValueError, match="not in"):
        bar_lanes(chart)
